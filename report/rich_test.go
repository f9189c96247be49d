package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// taskCPU is what the tasks of step 0 of an MPI job use, in CPU seconds a second.
var taskCPU = []float64{0.9, 0.9, 0.85, 0.95, 0.9, 0.2, 0.9, 1}

// mpiSnapshots is ten minutes of a job with a batch step and 8 unequal tasks. The node has Omni-Path, Lustre and two
// GPUs, and the job has one GPU.
func mpiSnapshots() []rt.Snapshot {
	first := at(0)
	first.Reason, first.Job.Phase = rt.ReasonFirst, rt.JobPending
	out := []rt.Snapshot{first}
	for sec := 10.0; sec <= 600; sec += 10 {
		out = append(out, mpiSnapshot(sec))
	}
	out[len(out)-1].Reason = rt.ReasonLast
	return out
}

func mpiSnapshot(sec float64) rt.Snapshot {
	s := at(sec)
	j := &s.Job
	j.Phase = rt.JobPresent
	us := func(rate float64) rt.Opt[uint64] { return u(uint64(sec * rate * 1e6)) }
	total := 0.0
	batch := rt.StepReading{Step: "batch", CPUUsage: us(0.001), CPUUser: us(0.0005), CPUSystem: us(0.0005), MemPeak: u(6 << 20), Pids: u(2)}
	extern := rt.StepReading{Step: "extern", CPUUsage: u(900), MemPeak: u(1 << 20), Pids: u(1)}
	step := rt.StepReading{Step: "0", PageFaults: u(uint64(sec) * 50), Pids: u(8), EventsOOMKill: u(0), Ended: sec == 600}
	tasks := []rt.StepReading{}
	for i, rate := range taskCPU {
		total += rate
		n := uint64(i)
		tasks = append(tasks, rt.StepReading{Step: "0", Task: u(n), CPUUsage: us(rate), MemPeak: u((100 + 10*n) << 20), Ended: sec == 600})
		s.Procs = append(s.Procs, rt.ProcessReading{PID: 5000 + n, Start: 100, Comm: "solver", Step: "0", Task: u(n),
			UserTicks: u(uint64(sec * rate * 100)), SystemTicks: u(uint64(sec)), RSS: u((90 + 10*n) << 20), Threads: u(2)})
	}
	step.CPUUsage, step.MemPeak = us(total), u(1200<<20)
	s.Steps = append([]rt.StepReading{extern, batch, step}, tasks...)
	s.Procs = append(s.Procs, rt.ProcessReading{PID: 4000, Start: 90, Comm: "sl\x1bp", Step: "batch", UserTicks: u(3), SystemTicks: u(1), RSS: u(3 << 30)})
	j.CPUUsage, j.CPUUser, j.CPUSystem, j.StepdCPUUsage = us(total+0.001), us(total*0.95), us(total*0.05+0.001), u(uint64(sec*400))
	j.MemCurrent, j.MemPeak, j.MemLimit = u(1100<<20), u(1210<<20), u(8<<30)
	j.Anon, j.Shmem, j.File = u(1000<<20), u(50<<20), u(100<<20)
	j.EventsOOMKill, j.Pids, j.Threads = u(0), u(11), u(20)
	j.CPUStallSome, j.MemStallSome, j.IOStallSome = us(0.031), us(0), us(0.002)
	j.CPUStallFull, j.MemStallFull, j.IOStallFull = us(0), us(0), us(0.001)
	j.PageFaults, j.MajorFaults = u(uint64(sec)*60), u(3)
	j.ProcReadBytes, j.ProcWriteBytes = u(uint64(sec)*1e6), u(uint64(sec)*2e6)
	s.Node.Load1, s.Node.CPUFreq = u(uint64(700+sec)), u(2_450_000)
	s.GPUs = []rt.GPUReading{
		{UUID: "GPU-a", Name: "H100", Host: "0", InJob: rt.Some(true), Utilization: rt.Some(50 + 50*math.Mod(sec/10, 2)), VRAMUsed: u(10 << 30), VRAMTotal: u(80 << 30), Power: rt.Some(300.0)},
		{UUID: "GPU-b", Name: "H100", Host: "1", InJob: rt.Some(false), Utilization: rt.Some(99.0)},
		{UUID: "GPU-c", Name: "H100", Host: "2", InJob: rt.Some(true), Utilization: rt.Some(0.0), VRAMUsed: u(0), VRAMTotal: u(80 << 30)},
	}
	s.GPUProcesses = []rt.GPUProcessReading{{UUID: "GPU-a", PID: 5000}, {UUID: "GPU-a", PID: 5001}}
	s.Fabrics = []rt.FabricReading{{Device: "hfi1_0", Port: 1, Link: "Omni-Path", RxBytes: u(1e12 + uint64(sec*1e8)), TxBytes: u(uint64(sec * 2e8))}}
	s.RemoteFS = []rt.RemoteFSReading{{Kind: "lustre", Source: "scratch", MountPoint: "/scratch", ReadBytes: u(uint64(sec * 1e7)), WriteBytes: u(uint64(sec * 3e6)), Ops: u(uint64(sec * 10))}}
	s.Energy = []rt.EnergyReading{
		{Source: "powercap", Domain: "package-0", Kind: rt.EnergyPackage, Energy: u(uint64(sec * 90e6))},
		{Source: "powercap", Domain: "dram", Kind: rt.EnergyDRAM}, {Source: "ipmi", Domain: "node", Kind: rt.EnergyNode, Power: rt.Some(412.5)},
	}
	return s
}

func mpiRun() rt.Run {
	run := slurmRun()
	run.JobID, run.ArrayJobID, run.ArrayTaskID = u(77), rt.None[uint64](), rt.None[uint64]()
	run.AllocCPUs, run.GPUs, run.Meta.JobName, run.End = u(16), "0,2", "mpi", start.Add(10*time.Minute)
	return run
}

// smallJob is a minute and a half of a batch script with one step: a job as most are.
func smallJob() []rt.Snapshot {
	var out []rt.Snapshot
	for i, s := range mpiSnapshots() {
		if i > 9 {
			break
		}
		if len(s.Steps) > 3 {
			s.Steps, s.Procs = s.Steps[:3], s.Procs[:1]
		}
		s.GPUs, s.GPUProcesses, s.Fabrics, s.RemoteFS, s.Energy = nil, nil, nil, nil, nil
		out = append(out, s)
	}
	out[len(out)-1].Reason = rt.ReasonLast
	return out
}

// killedSnapshots grow by 20 MiB a second up to their limit, where task 1 is killed.
func killedSnapshots() []rt.Snapshot {
	first := at(0)
	first.Reason, first.Job.Phase = rt.ReasonFirst, rt.JobPending
	out := []rt.Snapshot{first}
	for sec := uint64(1); sec <= 12; sec++ {
		s := at(float64(sec))
		j := &s.Job
		j.Phase = rt.JobPresent
		j.CPUUsage, j.CPUUser, j.CPUSystem, j.Pids = u(sec*1e6), u(sec*9e5), u(sec*1e5), u(3)
		held := min(sec*20, 210) << 20
		j.MemCurrent, j.MemPeak, j.MemLimit, j.Anon, j.EventsOOMKill = u(held), u(held), u(210<<20), u(held), u(0)
		s.Steps = []rt.StepReading{{Step: "0", EventsOOMKill: u(0)}, {Step: "0", Task: u(0), EventsOOMKill: u(0)}, {Step: "0", Task: u(1), EventsOOMKill: u(0)}}
		s.Procs = []rt.ProcessReading{
			{PID: 31, Comm: "small", Step: "0", Task: u(0), RSS: u(4 << 20)}, {PID: 32, Comm: "hungry", Step: "0", Task: u(1), RSS: u(held)},
		}
		if sec > 11 {
			j.EventsOOMKill, s.Steps[0].EventsOOMKill, s.Steps[2].EventsOOMKill = u(1), u(1), u(1)
			s.Procs = s.Procs[:1]
		}
		out = append(out, s)
	}
	out[len(out)-1].Reason = rt.ReasonLast
	return out
}

func richExamples() []example {
	killed := mpiRun()
	killed.Outcome, killed.OutcomeSource, killed.GPUs, killed.End = rt.OutcomeOOM, "kernel", "", start.Add(12*time.Second)
	small := mpiRun()
	small.GPUs, small.End = "", start.Add(90*time.Second)
	cost := rt.Event{Kind: "tracker", Name: "cost", Status: "ok", Detail: "snapshots=61 expected=66 missed=3 left_out=2 cpu_user_secs=0.120 cpu_system_secs=0.250 max_rss_kib=18432"}
	cost0 := cost
	cost0.Detail = "snapshots=61 expected=61 missed=0 left_out=0 cpu_user_secs=0.120 cpu_system_secs=0.250 max_rss_kib=18432"
	gapped := []rt.Event{
		{Kind: "tracker", Name: "budget", Status: "over", Detail: "0.81 % of a core in 60 s, more than 0.50 %: from snapshot 12 on without processes"},
		{Kind: "tracker", Name: "sensors", Status: "ok", Detail: "cgroup ok, node cache ok, energy denied"},
		{Kind: "job", Name: "gpu", Status: "mismatch", Detail: "a process of the job uses GPU-b (PCI 0000:41:00.0), which is not among the job's GPUs (0,2)"},
		{Kind: "sensor", Name: "energy", Status: "denied", Detail: "open energy_uj: permission denied"},
		cost, {Kind: "gap", Detail: "3 readings before snapshot 9 were skipped: it was done 3.100 s after it was due"}}
	return []example{
		{"small", small, []rt.Event{cost0}, smallJob()},
		{"mpi", mpiRun(), []rt.Event{cost0}, mpiSnapshots()},
		{"gap", mpiRun(), gapped, mpiSnapshots()},
		{"killed", killed, []rt.Event{cost0}, killedSnapshots()},
	}
}

func summarized(t *testing.T, e example) *Summary {
	t.Helper()
	s, err := Summarize(e.run, e.events, seq(e.snapshots))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// If the job was not read after the end of its last step, its CPU time is a lower bound.
func TestCPUAtLeast(t *testing.T) {
	for _, isBound := range []bool{false, true} {
		var events []rt.Event
		if isBound {
			events = []rt.Event{{Kind: "job", Name: "end", Status: "estimated", Detail: "the end was not read"}}
		}
		s := summarized(t, example{run: slurmRun(), snapshots: jobSnapshots(), events: events})
		var text strings.Builder
		if err := WriteDetails(&text, s, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		inText := strings.Contains(text.String(), "CPU time     at least ")
		isMarked := s.CPU.UsedMark == AtLeast && s.Memory.PeakMark == AtLeast
		if isMarked != isBound || inText != isBound || len(s.Record.Remarks) != len(events) {
			t.Errorf("a lower bound: %v; CPU %+v, remarks %q\n%s", isBound, s.CPU, s.Record.Remarks, text.String())
		}
	}
}

// The bytes that processes counted are a lower bound. If the ledger reports missing bytes, the
// report has a remark.
func TestBytesAtLeast(t *testing.T) {
	list := jobSnapshots()
	for i := range list {
		list[i].Job.IOReadBytes.Clear()
		list[i].Job.IOWriteBytes.Clear()
		list[i].Job.ProcReadBytes, list[i].Job.ProcWriteBytes = u(uint64(i)<<10), u(uint64(i)<<20)
		list[i].Job.Pids = u(0) // no reading has met a process
	}
	note := rt.Event{Kind: "job", Name: "bytes", Status: "estimated", Detail: "a process ended"}
	source := rt.Event{Kind: "job", Name: "io", Status: "ok", Detail: "the io controller is off"}
	for _, events := range [][]rt.Event{{source}, {source, note}} {
		s := summarized(t, example{run: slurmRun(), snapshots: list, events: events})
		if s.IO.Of != "processes" || s.IO.Mark != AtLeast || len(s.Record.Remarks) != len(events)-1 {
			t.Errorf("%d events: I/O %+v, remarks %q", len(events), s.IO, s.Record.Remarks)
		}
		if s.Processes.Max != u(1) {
			t.Errorf("%v processes at least, want 1: the job used %v s", s.Processes.Max, s.CPU.UsedSecs)
		}
		var text strings.Builder
		if err := WriteText(&text, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), "Disk I/O     read at least ") || !strings.Contains(text.String(), ", written at least ") {
			t.Errorf("%d events:\n%s", len(events), text.String())
		}
	}
	list[5].Job.IOReadBytes, list[5].Job.IOWriteBytes = u(0), u(0)
	list[6].Job.IOReadBytes, list[6].Job.IOWriteBytes = u(9), u(9)
	if s := summarized(t, example{run: slurmRun(), snapshots: list, events: []rt.Event{note}}); s.IO.Mark != Exact {
		t.Errorf("the io controller counts exactly: %+v", s.IO)
	}
}

func TestStepsAndTasks(t *testing.T) {
	s := summarized(t, richExamples()[1])
	if len(s.Steps) != 3 || s.Steps[2].Step != "0" || len(s.Steps[2].Tasks) != len(taskCPU) {
		t.Fatalf("steps %+v", s.Steps)
	}
	step := &s.Steps[2]
	mean, tasks := 0.0, 0.0
	for i, rate := range taskCPU {
		mean += rate / float64(len(taskCPU))
		tasks += step.Tasks[i].UsedSecs.Or(0)
	}
	if got := step.CPUImbalance.Or(0); math.Abs(got-1/mean) > 1e-9 {
		t.Errorf("imbalance %v, want %v", got, 1/mean)
	}
	if math.Abs(tasks-step.UsedSecs.Or(0)) > 1e-3 || !step.Ended || step.MaxProcesses != u(8) {
		t.Errorf("tasks used %v s of step %+v", tasks, step)
	}
	if got := s.CPU.StepdSecs; got != rt.Some(0.24) {
		t.Errorf("slurmstepd used %v", got)
	}
	if s.IO.Of != "processes" || s.IO.ReadBytes != u(6e8) {
		t.Errorf("io %+v", s.IO)
	}
	if p := s.Processes.Top[0]; p.PID != 5007 || math.Abs(p.UsedSecs.Or(0)-606) > 0.011 {
		t.Errorf("the process that used most: %+v", p)
	}
}

// The job's GPUs are those that were allocated, used or not; another job's is not there.
func TestGPUsOfTheJob(t *testing.T) {
	s := summarized(t, richExamples()[1])
	if len(s.GPUs) != 2 || s.GPUs[0].UUID != "GPU-a" || s.GPUs[1].UUID != "GPU-c" {
		t.Fatalf("GPUs %+v", s.GPUs)
	}
	if g := s.GPUs[0]; g.Processes != 2 || math.Abs(g.BusyPct.Or(0)-75) > 1e-9 || g.MaxBusyPct != rt.Some(100.0) {
		t.Errorf("%+v", g)
	}
	if g := s.GPUs[1]; g.BusyPct != rt.Some(0.0) || g.MeanWatts.Valid() {
		t.Errorf("the idle one: %+v", g)
	}
	j := only(t, s)
	j.Advise(nil)
	if a := adviceOn(j, "gpus"); a.Verdict != Less || a.Request != "--gpus-per-node=1" || a.Text != "1 of 2 GPUs busy at no reading" {
		t.Errorf("advice: %+v", a)
	}
}

// A run of a job has no GPU of another job, also if the job's cgroup was not read. A run without a job has all GPUs.
func TestGPUsOfTheNode(t *testing.T) {
	gpus := gpuTallies{}
	gpus.add(&rt.Snapshot{GPUs: []rt.GPUReading{{UUID: "ours", InJob: rt.Some(true)}, {UUID: "other", InJob: rt.Some(false)}, {UUID: "unknown"}}}, 10)
	for _, c := range []struct {
		scope  Scope
		hasJob bool
		want   string
	}{
		{ScopeJob, true, "ours"}, {ScopeJob, false, "ours"}, {ScopeTree, true, "ours unknown"}, {ScopeNode, true, "ours unknown"},
		{ScopeTree, false, "ours other unknown"}, {ScopeNode, false, "ours other unknown"},
	} {
		var got []string
		for _, g := range gpus.list(c.scope, c.hasJob) {
			got = append(got, g.UUID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("scope %s, job %t: %v, want %s", c.scope, c.hasJob, got, c.want)
		}
	}
}

func TestEnergyIsAbsentWhereNothingMeasured(t *testing.T) {
	s := summarized(t, richExamples()[1])
	if len(s.Energy) != 3 {
		t.Fatalf("%+v", s.Energy)
	}
	node, pkg, dram := s.Energy[0], s.Energy[1], s.Energy[2]
	if node.Joules.Valid() || math.Abs(node.Watts.Or(0)-412.5) > 1e-9 {
		t.Errorf("a domain of power alone: %+v", node)
	}
	if math.Abs(pkg.Joules.Or(0)-590*90) > 1e-6 {
		t.Errorf("package: %+v", pkg)
	}
	if dram.Joules.Valid() || dram.Watts.Valid() {
		t.Errorf("nothing was measured: %+v", dram)
	}
}

func TestOOMKillIsDescribed(t *testing.T) {
	s := summarized(t, richExamples()[3])
	if len(s.OOM) != 1 {
		t.Fatalf("%+v", s.OOM)
	}
	k := s.OOM[0]
	if !k.Time.Equal(start.Add(12*time.Second)) || k.Step != "0" || k.Task != u(1) || k.LimitBytes != u(210<<20) || k.Kills != 1 {
		t.Errorf("%+v", k)
	}
	if g := k.GrowthBytesPerSec.Or(0) / (1 << 20); math.Abs(g-19) > 1e-9 { // 20 to 210 MiB in 10 s
		t.Errorf("growth %v MiB/s", g)
	}
	if len(k.Biggest) != 2 || k.Biggest[0].Comm != "hungry" || k.Biggest[0].RSSBytes != u(210<<20) {
		t.Errorf("biggest %+v", k.Biggest)
	}
}

func TestLedger(t *testing.T) {
	s := summarized(t, richExamples()[2])
	r := s.Record
	if r.Readings != 61 || r.Expected != 66 || r.Missed != 3 || r.LeftOut != 2 || r.Gaps != 1 {
		t.Errorf("%+v", r)
	}
	if r.Tracker.CPUSecs != rt.Some(0.37) || r.Tracker.MaxRSSBytes != u(18<<20) {
		t.Errorf("cost %+v", r.Tracker)
	}
	if len(r.Sensors) != 3 || r.Sensors["node cache"] != "ok" || r.Sensors["energy"] != "denied" || len(r.Budget) != 1 || len(r.Remarks) != 1 {
		t.Errorf("sensors %v, budget %q, remarks %q", r.Sensors, r.Budget, r.Remarks)
	}
	if missed("the node slept for 3 s") != 0 || missed("-3 readings") != 0 {
		t.Error("a text without a number of readings gave one")
	}
}

// The tasks of srun that continued after the tracked one are reported, and there is no advice
// from figures that are not final.
func TestUnseenTasks(t *testing.T) {
	for detail, want := range map[string]string{
		"7 other tasks of step 0 on this node had not ended": "7 other tasks of step 0 continued on this node after 02:10:00, when the tracked one had ended: their use after that is not in these figures",
		"1 other task of step 0 on this node had not ended":  "1 other task of step 0 continued on this node after 02:10:00, when the tracked one had ended: their use after that is not in these figures",
	} {
		e := richExamples()[1]
		e.run.Step = "0"
		e.events = append(e.events, rt.Event{Kind: "job", Name: "tasks", Status: "unseen", Detail: detail})
		s := summarized(t, e)
		j := only(t, s)
		j.Advise(nil)
		var text strings.Builder
		if err := WriteText(&text, j, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(text.String()), " ")
		number := want[:1]
		if s.Record.Unseen != int(number[0]-'0') || s.Record.Complete || j.AdviceReason != "the record is not complete" ||
			!strings.Contains(words, "Note "+want) || strings.Count(words, "8 tasks, "+number+" not to the end") != 1 {
			t.Errorf("%+v, advice %q, in\n%s", s.Record, j.AdviceReason, text.String())
		}
	}
}

// What a peak is measured by: the limit that is enforced on this node, else what was allocated here, else the node's
// memory.
func TestLimitOfThisNode(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		name         string
		limit, alloc rt.Opt[uint64]
		want         uint64
		of           string
		pct          float64
	}{
		{"--mem=8G", u(8 * gib), u(8 * gib), 8 * gib, "cgroup", 25},
		{"--mem-per-cpu=1G, 4 CPUs here", u(4 * gib), u(4 * gib), 4 * gib, "cgroup", 50},
		{"--mem-per-gpu=16G, one GPU here", u(16 * gib), rt.None[uint64](), 16 * gib, "cgroup", 12.5},
		{"--mem=8G, not enforced", u(rt.Unlimited), u(8 * gib), 8 * gib, "allocation", 25},
		{"--mem=0", u(rt.Unlimited), u(0), 64 * gib, "node", 3.125},
		{"nothing is known", rt.None[uint64](), rt.None[uint64](), 64 * gib, "node", 3.125},
	} {
		run := mpiRun()
		run.AllocMem = tt.alloc
		list := jobSnapshots()
		for i := range list {
			if j := &list[i].Job; j.Phase == rt.JobPresent {
				j.MemPeak, j.MemLimit = u(2*gib), tt.limit
			}
		}
		m := summarized(t, example{run: run, snapshots: list}).Memory
		if m.LimitBytes != u(tt.want) || m.LimitOf != tt.of || m.PeakPct != rt.Some(tt.pct) {
			t.Errorf("%s: %v of %s %v, %v %%", tt.name, m.PeakBytes, m.LimitOf, m.LimitBytes, m.PeakPct)
		}
	}
}

// A job with more processes than are remembered still shows those that used most.
func TestTopProcessesOfMany(t *testing.T) {
	tally := processTallies{}
	for i := range uint64(3 * maxProcesses) {
		var s rt.Snapshot
		s.Procs = []rt.ProcessReading{{PID: i, UserTicks: u(i * 7919 % 10007), SystemTicks: u(0), RSS: u(i * 104729 % 10007)}}
		if i == 5 {
			s.Procs[0].UserTicks, s.Procs[0].RSS = u(99999), u(0)
		}
		tally.add(&s)
	}
	if top := tally.top(); top[0].PID != 5 || len(tally) > maxProcesses || len(top) != 2*topProcesses {
		t.Errorf("%d remembered, top %+v", len(tally), top)
	}
}
