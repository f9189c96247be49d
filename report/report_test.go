package report

import (
	stdcmp "cmp"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

var update = flag.Bool("update", false, "write the golden files again")

var start = time.Date(2026, 3, 30, 2, 0, 0, 0, time.UTC)

func u(v uint64) rt.Opt[uint64] { return rt.Some(v) }

// at is a snapshot of a node with 8 CPUs at so many seconds.
func at(sec float64) rt.Snapshot {
	s := rt.Snapshot{Wall: start.UnixNano() + int64(sec*1e9), Boot: 1e12 + int64(sec*1e9)}
	s.Node.CPU.Set(rt.CPUTimes{User: uint64(sec * 500), System: uint64(sec * 100), Idle: uint64(sec * 200)})
	s.Node.CPUs, s.Node.Processes = u(8), u(200+uint64(sec)%7)
	s.Node.MemTotal, s.Node.MemFree, s.Node.Buffers = u(64<<30), u(32<<30), u(1<<30)
	s.Node.Cached, s.Node.SReclaimable, s.Node.Shmem = u(8<<30), u(1<<30), u(2<<30)
	s.Node.NetRxBytes, s.Node.NetTxBytes = u(1<<40+uint64(sec*1e6)), u(1<<40+uint64(sec*1e3))
	s.Node.DiskReadBytes, s.Node.DiskWriteBytes = u(uint64(sec*1e5)), u(uint64(sec*2e5))
	return s
}

func slurmRun() rt.Run {
	return rt.Run{
		Identity: rt.Identity{Cluster: "lab", JobID: u(1203), ArrayJobID: u(1200), ArrayTaskID: u(3), Node: "n1", Start: start},
		Allocation: rt.Allocation{
			User: "alice", Account: "physics", Partition: "main", AllocCPUs: u(4), AllocMem: u(8 << 30),
			Scheduler: "slurm",
		},
		Meta:     rt.Metadata{JobName: "train-model"},
		Interval: 10,
		Ending: rt.Ending{
			State: rt.StateEnded, Outcome: rt.OutcomeFinished, OutcomeSource: "epilog",
			ExitCode: rt.Some[int64](0), ExitSignal: rt.Some[int64](0), DerivedExit: rt.Some[int64](0),
			End: start.Add(time.Hour),
		},
	}
}

// jobSnapshots is an hour of a job that computes in waves and fills its memory:
// 1 Hz for the first minute, then every 10 s.
func jobSnapshots() []rt.Snapshot {
	first := at(0)
	first.Reason, first.Job.Phase = rt.ReasonFirst, rt.JobPending
	out := []rt.Snapshot{first}
	usage := 0.0
	for sec := 1.0; sec <= 3600; {
		s := at(sec)
		j := &s.Job
		j.Phase = rt.JobPresent
		usage += (sec - float64(out[len(out)-1].Boot-out[0].Boot)/1e9) * 2 * (1 + math.Sin(sec/300))
		j.CPUUsage, j.CPUUser, j.CPUSystem = u(uint64(usage*1e6)), u(uint64(usage*0.9e6)), u(uint64(usage*0.1e6))
		j.Anon, j.Shmem = u(uint64(sec*1e6)), u(256<<20)
		j.File = u(512<<20 + 256<<20)
		j.MemCurrent = u(j.Anon.Or(0) + j.File.Or(0))
		j.MemPeak, j.MemLimit = u(j.MemCurrent.Or(0)+100<<20), u(8<<30)
		j.EventsOOMKill, j.Pids = u(0), u(5+uint64(sec)%13)
		out = append(out, s)
		if sec < 60 {
			sec++
		} else {
			sec += 10
		}
	}
	out[len(out)-1].Reason = rt.ReasonLast
	return out
}

func commandRun() rt.Run {
	return rt.Run{
		Identity:   rt.Identity{Node: "laptop", Start: start},
		Allocation: rt.Allocation{User: "bob"},
		PID:        u(4242),
		Command:    []string{"python", "train.py", "--epochs", "10"},
		Interval:   1,
		Ending: rt.Ending{
			End:   start.Add(5500 * time.Millisecond),
			State: rt.StateEnded, Outcome: rt.OutcomeFailed, OutcomeSource: "exit", ExitCode: rt.Some[int64](3),
		},
	}
}

func commandSnapshots() []rt.Snapshot {
	var out []rt.Snapshot
	for i := range 6 {
		s := at(float64(i))
		s.Tree = rt.TreeReading{CPUUserTicks: u(uint64(10 + i*150)), CPUSystemTicks: u(uint64(i * 5)), Children: u(uint64(i % 3)), RSS: u(uint64(i+1) << 28), PSS: u(uint64(i+1) << 28)}
		out = append(out, s)
	}
	out[5].Reason = rt.ReasonLast
	return out
}

func seq(snapshots []rt.Snapshot) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		var reused rt.Snapshot
		for i := range snapshots {
			reused = snapshots[i]
			reused.Seq = int64(i) + 1
			if !yield(&reused, nil) {
				return
			}
		}
	}
}

type example struct {
	name      string
	run       rt.Run
	events    []rt.Event
	snapshots []rt.Snapshot
}

func examples() []example {
	never := slurmRun()
	never.Outcome, never.ExitCode, never.Meta.JobName = rt.OutcomeUnknown, rt.None[int64](), "evil\x1b[2J\nname "+strings.Repeat("x", 100)
	pending := at(0)
	pending.Job.Phase = rt.JobPending

	oom := slurmRun()
	oom.Outcome, oom.OutcomeSource, oom.ExitCode, oom.DerivedExit = rt.OutcomeOOM, "kernel", rt.Some[int64](0), rt.Some[int64](137)
	oom.ExitSignal, oom.End = rt.Some[int64](125), start.Add(9*time.Second)
	oomed := jobSnapshots()[:10]
	for i := range oomed {
		if j := &oomed[i].Job; j.Phase == rt.JobPresent {
			j.MemPeak, j.MemLimit = u(256<<20), u(256<<20)
			j.IOReadBytes, j.IOWriteBytes = u(uint64(i)*1000), u(uint64(i)*5e7)
		}
	}
	oomed[9].Job.EventsOOMKill.Set(2)
	oomed[9].Reason = rt.ReasonLast

	lost := slurmRun()
	lost.State, lost.Outcome, lost.OutcomeSource, lost.End = rt.StateEnded, rt.OutcomeLost, "drain", time.Time{}
	lost.ExitCode, lost.ExitSignal, lost.DerivedExit = rt.None[int64](), rt.None[int64](), rt.None[int64]()
	unlimited := jobSnapshots()[:90]
	for i := range unlimited {
		unlimited[i].Job.MemLimit.Set(rt.Unlimited)
		unlimited[i].Job.MemPeak.Clear() // a kernel before 5.19
	}

	machine := []rt.Snapshot{}
	for i := range 30 {
		machine = append(machine, at(float64(i)*60))
	}
	return []example{
		{"job", slurmRun(), []rt.Event{{Kind: "sensor", Name: "gpu", Status: "absent", Detail: "no driver is loaded"}}, jobSnapshots()},
		{"never-appeared", never, nil, []rt.Snapshot{pending}},
		{"oom", oom, nil, oomed},
		{"lost", lost, []rt.Event{
			{Kind: "gap"}, {Kind: "gap"}, {Kind: "sensor", Name: "disk", Status: "denied", Detail: "open /proc/diskstats: permission denied"},
			{Kind: "sensor", Name: "network", Status: "failed"}, {Kind: "sensor", Name: "network", Status: "ok"},
		}, unlimited},
		{"command", commandRun(), []rt.Event{
			{Kind: "sensor", Name: "energy", Status: "absent", Detail: "find energy counters /sys: file does not exist"},
			{Kind: "sensor", Name: "cpu frequency", Status: "absent", Detail: "read /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq: file does not exist"},
		}, commandSnapshots()},
		{"node", rt.Run{Identity: rt.Identity{Node: "n1", Start: start}, Ending: rt.Ending{State: rt.StateRunning}}, nil, machine},
		{"empty", rt.Run{Identity: rt.Identity{Node: "n1", JobID: u(7)}}, nil, nil},
	}
}

// screens are the numbers of lines of the examples with more than 34. Each pair of tasks, each GPU, each network and
// so on has one more line.
var screens = map[string]int{"mpi": 52, "gap": 48}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (run with -update to accept), -want +got:\n%s", path, d)
	}
}

func TestScreen(t *testing.T) {
	for _, e := range append(examples(), richExamples()...) {
		t.Run(e.name, func(t *testing.T) {
			s, err := Summarize(e.run, e.events, seq(e.snapshots))
			if err != nil {
				t.Fatal(err)
			}
			j := Jobs([]*Summary{s})[0]
			j.Advise(nil)
			var text, plainText strings.Builder
			if err := errors.Join(WriteText(&text, j, TextOptions{Zone: time.UTC, Width: 80}), WriteText(&plainText, j, TextOptions{Zone: time.UTC, ASCII: true, Width: 80})); err != nil {
				t.Fatal(err)
			}
			golden(t, e.name+".txt", text.String())
			lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
			if most := stdcmp.Or(screens[e.name], 34); len(lines) > most {
				t.Errorf("%d lines", len(lines))
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > 80 {
					t.Errorf("%d columns: %s", n, l)
				}
			}
			for _, c := range plainText.String() {
				if c > 126 || c < ' ' && c != '\n' {
					t.Fatalf("%q in the ASCII screen", c)
				}
			}
			doc, err := json.MarshalIndent(s, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, e.name+".json", string(doc)+"\n")
		})
	}
}

// The memory of a command that ended before its second reading is unknown, not zero. The report shows the kernel's
// figure at its end instead.
func TestShortCommand(t *testing.T) {
	for _, tt := range []struct {
		name, detail string
		rss          uint64
		peak         rt.Opt[uint64]
		lines        []string
	}{
		{"known to the kernel", "cpu_user_secs=0.001 max_process_rss_kib=12288 major_faults=0", 0, rt.None[uint64](),
			[]string{"Memory       - (it ended before its memory was read)", "             largest process 12.0 MiB, as the kernel reported at its end"}},
		{"not known", "", 0, rt.None[uint64](), []string{"Memory       - (it ended before its memory was read)"}},
		{"read early", "max_process_rss_kib=12288", 4 << 20, u(4 << 20),
			[]string{"Memory       peak at least 4.00 MiB of", "             largest process 12.0 MiB, as the kernel reported at its end"}},
	} {
		list := commandSnapshots()[:2]
		list[0].Tree, list[1].Tree.PSS, list[1].Reason = rt.TreeReading{}, u(tt.rss), rt.ReasonLast
		list[1].Wall, list[1].Boot = list[0].Wall+30e6, list[0].Boot+30e6
		run := commandRun()
		run.End = run.Start.Add(30 * time.Millisecond)
		s := summarized(t, example{run: run, snapshots: list, events: []rt.Event{{Kind: "job", Name: "rusage", Status: "ok", Detail: tt.detail}}})
		var text strings.Builder
		if err := WriteText(&text, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if s.Memory.PeakBytes != tt.peak || s.Node.MeanCores.Valid() {
			t.Errorf("%s: peak %v, node's cores %v", tt.name, s.Memory.PeakBytes, s.Node.MeanCores)
		}
		for _, line := range tt.lines {
			if !strings.Contains(text.String(), "\n"+line) {
				t.Errorf("%s: no line %q in\n%s", tt.name, line, text.String())
			}
		}
		// thirty milliseconds are three ticks: the node's use says nothing
		if strings.Contains(text.String(), "Whole node") || tt.detail == "" && strings.Contains(text.String(), "largest") {
			t.Errorf("%s: more than is known:\n%s", tt.name, text.String())
		}
	}
}

// Pages that forked processes share count once. Where a reading counts them in each process, the report says
// "at most", and never more than the node used.
func TestMemoryOfATree(t *testing.T) {
	const shared, sum, inUse = 216 << 20, 2309 << 20, 1600 << 20
	for _, tt := range []struct {
		name string
		pss  []rt.Opt[uint64]
		want Memory
		line string
	}{
		{"PSS in all readings", []rt.Opt[uint64]{u(shared), u(shared)}, Memory{MemoryPart: MemoryPart{PeakMemory: PeakMemory{u(shared), AtLeast}}}, "Memory       peak at least 216 MiB of "},
		{"PSS in one", []rt.Opt[uint64]{u(shared), {}}, Memory{MemoryPart: MemoryPart{PeakMemory: PeakMemory{u(inUse), AtMost}}, PSSBytes: u(shared)}, "Memory       highest reading at most 1.56 GiB of "},
		{"PSS in none", []rt.Opt[uint64]{{}, {}}, Memory{MemoryPart: MemoryPart{PeakMemory: PeakMemory{u(inUse), AtMost}}}, "Memory       highest reading at most 1.56 GiB of "},
	} {
		list := commandSnapshots()[:2]
		for i := range list {
			list[i].Tree.RSS, list[i].Tree.PSS = u(sum), tt.pss[i]
			list[i].Node.MemTotal, list[i].Node.MemFree = u(4<<30), u(4<<30-inUse)
		}
		s := summarized(t, example{run: commandRun(), snapshots: list})
		var text strings.Builder
		if err := WriteText(&text, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		m := s.Memory
		if m.PeakMemory != tt.want.PeakMemory || m.PSSBytes != tt.want.PSSBytes || s.Figures().Memory.PeakMemory != m.PeakMemory {
			t.Errorf("%s: %+v", tt.name, m)
		}
		if !strings.Contains(text.String(), "\n"+tt.line) {
			t.Errorf("%s: no line %q in\n%s", tt.name, tt.line, text.String())
		}
	}
}

// A command in a container has the container's limit, peak and kills. The tree has its own figure.
func TestContainerOfATree(t *testing.T) {
	list := commandSnapshots()[:3]
	for i := range list {
		list[i].Job = rt.JobReading{MemLimit: u(200 << 20), EventsOOMKill: u(uint64(3 + i/2))}
	}
	list[2].Job.MemPeak, list[2].Reason = u(200<<20), rt.ReasonLast
	run := commandRun()
	run.Outcome, run.AllocCPUs = rt.OutcomeOOM, u(2)
	s := summarized(t, example{run: run, snapshots: list})
	var text strings.Builder
	if err := WriteText(&text, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC}); err != nil {
		t.Fatal(err)
	}
	m := s.Memory
	if m.PeakBytes != u(200<<20) || m.PeakOf != "container" || m.LimitBytes != u(200<<20) || m.LimitOf != "container" || m.OOMKills != u(1) || m.TreePeak.PeakBytes != u(768<<20) {
		t.Errorf("%+v", m)
	}
	for _, line := range []string{
		"Memory       [████████████████████] 100.0 %  200 MiB of 200 MiB (container)", "  tree       at least 768 MiB in the readings", "OOM kills    1",
		"Memory       peak 200 MiB of 200 MiB container limit",
	} {
		if !strings.Contains(text.String(), "\n"+line) {
			t.Errorf("no line %q in\n%s", line, text.String())
		}
	}
}

// A value that was not read is null and has a reason, in every block.
func TestAbsentHasAReason(t *testing.T) {
	for _, e := range examples() {
		s, err := Summarize(e.run, e.events, seq(e.snapshots))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []struct {
			block  string
			absent bool
			reason string
		}{
			{"cpu", !s.CPU.UsedSecs.Valid(), s.CPU.Reason},
			{"memory", !s.Memory.PeakBytes.Valid(), s.Memory.Reason},
			{"memory parts", !s.Memory.AnonymousBytes.Valid(), s.Memory.PartsReason},
			{"oom kills", !s.Memory.OOMKills.Valid(), s.Memory.OOMReason},
			{"io", !s.IO.ReadBytes.Valid(), s.IO.Reason},
			{"network", !s.Network.RecvBytes.Valid(), s.Network.Reason},
			{"processes", !s.Processes.Max.Valid(), s.Processes.Reason},
		} {
			if b.absent != (b.reason != "") {
				t.Errorf("%s, %s: absent %v, reason %q", e.name, b.block, b.absent, b.reason)
			}
		}
	}
}

func TestTotals(t *testing.T) {
	s, err := Summarize(slurmRun(), nil, seq(jobSnapshots()))
	if err != nil {
		t.Fatal(err)
	}
	all := jobSnapshots()
	last := all[len(all)-1].Job
	if got, want := s.CPU.UsedSecs.Or(0), float64(last.CPUUsage.Or(0))/1e6; math.Abs(got-want) > 1e-6 {
		t.Errorf("CPU %v s, the job's last reading says %v", got, want)
	}
	if s.Memory.PeakBytes != last.MemPeak || s.Memory.LimitOf != "cgroup" || s.Memory.PeakOf != "kernel" {
		t.Errorf("memory %+v", s.Memory)
	}
	if s.Memory.FileBytes != u(512<<20) {
		t.Errorf("file cache without shared memory = %v", s.Memory.FileBytes)
	}
	if s.Memory.OOMKills != u(0) || !s.Record.Complete || s.Record.Readings != len(all) {
		t.Errorf("oom kills %v, record %+v", s.Memory.OOMKills, s.Record)
	}
	// The columns of the series hold the same CPU time.
	sum := 0.0
	for _, c := range s.Series.Cores {
		sum += c.Or(math.NaN()) * s.Series.ColumnSecs
	}
	if len(s.Series.Cores) != maxColumns || math.Abs(sum-s.CPU.UsedSecs.Or(0)) > 0.01 {
		t.Errorf("%d columns hold %v s of %v", len(s.Series.Cores), sum, s.CPU.UsedSecs)
	}
}

func TestTotalSkipsGapsAndResets(t *testing.T) {
	tests := []struct {
		name   string
		series []rt.Opt[uint64]
		zero   bool
		want   rt.Opt[uint64]
	}{
		{"plain", []rt.Opt[uint64]{u(5), u(7), u(11)}, false, u(6)},
		{"from zero", []rt.Opt[uint64]{u(5), u(7)}, true, u(7)},
		{"a gap", []rt.Opt[uint64]{u(5), {}, {}, u(11)}, false, u(6)},
		{"a gap at first", []rt.Opt[uint64]{{}, u(11)}, true, u(11)},
		{"backwards", []rt.Opt[uint64]{u(5), u(9), u(2), u(3)}, false, u(5)},
		{"one", []rt.Opt[uint64]{u(5)}, false, rt.None[uint64]()},
		{"one, from zero", []rt.Opt[uint64]{u(5)}, true, u(5)},
		{"none", nil, true, rt.None[uint64]()},
	}
	for _, tt := range tests {
		var c total
		if tt.zero {
			c.origin.Set(0)
		}
		for _, v := range tt.series {
			c.add(v)
		}
		if got := c.value(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSummarizePassesOnErrors(t *testing.T) {
	broken := errors.New("the file is damaged")
	_, err := Summarize(slurmRun(), nil, func(yield func(*rt.Snapshot, error) bool) { yield(nil, broken) })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "1200_3 on n1") {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteTextPassesOnErrors(t *testing.T) {
	s, err := Summarize(slurmRun(), nil, seq(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteText(failing{}, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC}); err == nil {
		t.Error("no error")
	}
}

func TestUnits(t *testing.T) {
	for v, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 10 << 20: "10.0 MiB", 999 << 20: "999 MiB",
		1000 << 20: "1000 MiB", 1<<30 - 1: "1.00 GiB", 5 << 40: "5.00 TiB", math.MaxUint64: "16384 PiB",
	} {
		if got := Size(u(v)); got != want {
			t.Errorf("Size(%d) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00 s", 0.2: "0.20 s", 59.4: "59.40 s", 61: "00:01:01", 3661: "01:01:01", 90061: "1-01:01:01", 10834912: "125-09:41:52"} {
		if got := Clock(rt.Some(v)); got != want {
			t.Errorf("Clock(%v) = %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0.00 J", 999.4: "999 J", 999.6: "1.00 kJ", 53100: "53.1 kJ", 18533934: "18.5 MJ", 3e12: "3000 GJ"} {
		if got := Joules(rt.Some(v)); got != want {
			t.Errorf("Joules(%v) = %s, want %s", v, got, want)
		}
	}
	if Size(rt.None[uint64]()) != "-" || Clock(rt.None[float64]()) != "-" || Joules(rt.None[float64]()) != "-" {
		t.Error("an absent value is not a dash")
	}
}

func TestSparkline(t *testing.T) {
	f := rt.Some[float64]
	series := []rt.Opt[float64]{f(0), f(1), {}, f(4), f(8)}
	if got := Sparkline(series, 8, false); got != "▁▂ ▅█" {
		t.Errorf("%q", got)
	}
	if got := Sparkline(series, 8, true); got != "_. =#" {
		t.Errorf("%q", got)
	}
	if got := Sparkline(series[:2], 0, true); got != "__" {
		t.Errorf("with no peak: %q", got)
	}
}

// The elapsed time of a run that has not ended is the time between its readings. One reading shows
// none.
func TestElapsedOfARunningJob(t *testing.T) {
	run := slurmRun()
	run.Ending = rt.Ending{State: rt.StateRunning}
	for n, want := range []rt.Opt[float64]{rt.None[float64](), rt.None[float64](), rt.Some(1.0)} {
		s := summarized(t, example{run: run, snapshots: jobSnapshots()[:n]})
		if s.ElapsedSecs != want {
			t.Errorf("%d readings: %v s, want %v", n, s.ElapsedSecs, want)
		}
	}
}
