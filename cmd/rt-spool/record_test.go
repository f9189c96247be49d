package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

// richSnapshots are the snapshots of runtest.Job with steps, tasks, processes, an OOM kill, energy,
// hardware counters, pressure, a network and file systems.
func richSnapshots() []rt.Snapshot {
	_, list := runtest.Job()
	for i := range list {
		n, s := uint64(i), &list[i]
		s.Node.MemTotal, s.Node.MemFree = rt.Some[uint64](64<<30), rt.Some(40<<30-n*3)
		s.Node.CPU.Set(rt.CPUTimes{User: 1e9 + n*900, Idle: 4e9 + n*1000})
		s.Job.EventsOOMKill, s.Job.MemLimit, s.Job.MemPeak = rt.Some(n/61), rt.Some[uint64](2<<30), rt.Some(n<<20)
		s.Job.CPUStallSome, s.Job.MemStallFull, s.Job.MajorFaults = rt.Some(n*1e6), rt.Some(n*7), rt.Some(n)
		for k := range uint64(3) {
			s.Steps = append(s.Steps, rt.StepReading{Step: "0", Task: rt.Some(k), CPUUsage: rt.Some(n * (1 + k) * 1e6), MemPeak: rt.Some(n << 20)})
			s.Procs = append(s.Procs, rt.ProcessReading{
				PID: 100 + n/3*10 + k, Start: 5 + n/3, Comm: fmt.Sprint("sh", k), Step: "0", Task: rt.Some(k), UserTicks: rt.Some(n * 97), SystemTicks: rt.Some(n),
				RSS: rt.Some((n + k*3) << 12), PSS: rt.Some(n << 11), Threads: rt.Some[uint64](2), ReadBytes: rt.Some(n << 50),
			})
		}
		s.Steps = append(s.Steps, rt.StepReading{Step: "0", CPUUsage: rt.Some(n * 6e6), Ended: n > 100})
		if n%4 == 1 {
			s.Procs, s.Steps = nil, s.Steps[:1] // not read
		}
		s.Energy = []rt.EnergyReading{{Source: "powercap", Kind: rt.EnergyPackage, Domain: "package-0", Socket: rt.Some[uint64](0), Energy: rt.Some(n * 5e8)}}
		s.Perf = []rt.PerfReading{{Group: "core", CPU: 3, Event: "instructions", Value: rt.Some(n<<52 + 1), TimeEnabled: rt.Some(n * 1e10), TimeRunning: rt.Some(n * 9e9)}}
		s.Fabrics = []rt.FabricReading{{Device: "mlx5_0", Port: 1, RxBytes: rt.Some(n << 30), State: "ACTIVE", Link: "InfiniBand"}}
		s.RemoteFS = []rt.RemoteFSReading{{Kind: "nfs", Source: "server:/home", MountPoint: "/home", ReadBytes: rt.Some(n << 10)}}
		if n > 0 {
			s.GPUs[1].Power, s.GPUs[1].Detail = rt.Some(250.123+float64(n)/7), map[string]string{"driver": "550"}
			s.GPUProcesses = []rt.GPUProcessReading{{UUID: "GPU-b", PID: 7 + n/50, VRAMUsed: rt.Some[uint64](20 << 30)}}
		}
	}
	return list
}

// kinds makes runs of every kind in dir: jobs 1, 2, ...
func kinds(t *testing.T, dir string) (jobs []string) {
	t.Helper()
	number := uint64(0)
	start := time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC)
	write := func(list []rt.Snapshot, change func(*rt.Run), end func(w *spool.Writer, run rt.Run) error) {
		t.Helper()
		run, _ := runtest.Job()
		run.JobID, run.Scheduler, run.BootID, run.Interval, run.TrackerVersion = rt.Some(number), "slurm", "b", 10, rt.Version
		run.Start = start.Add(time.Duration(number) * time.Second)
		change(&run)
		w, err := spool.Create(dir, run, rt.Host{HostName: run.Node, CPUModel: "EPYC", StorageGB: rt.Some(270.1), VCPUs: rt.Some[uint64](4)}, spool.Options{CommitRows: 50})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if err := w.Put(&list[i]); err != nil {
				t.Fatal(err)
			}
		}
		run.End = run.Start.Add(20 * time.Minute)
		if err := end(w, run); err != nil {
			t.Fatal(err)
		}
	}
	job := func() {
		number++
		jobs = append(jobs, fmt.Sprint(number))
	}
	ended := func(w *spool.Writer, run rt.Run) error { return w.End(run) }
	same := func(*rt.Run) {}
	rich := richSnapshots()

	job() // everything at once
	write(rich, func(r *rt.Run) {
		r.Meta.Tags = map[string]string{"slurm_qos": "a=b", "x": ""}
		r.Command, r.GPUs, r.Comment = []string{"train", "--secret", "a b"}, "1", "é \xff"
		r.JobStart, r.JobEndLimit, r.NumNodes = r.Start, r.Start.Add(time.Hour), rt.Some[uint64](1)
		r.Outcome, r.OutcomeSource, r.ExitCode, r.ExitSignal = rt.OutcomeOOM, "sacct", rt.Some[int64](0), rt.Some[int64](9)
	}, func(w *spool.Writer, run rt.Run) error {
		for i := range 20 {
			w.Event(rt.Event{Time: run.Start.Add(time.Duration(i) * time.Minute), Kind: "gap", Name: "readings", Status: "late", Detail: fmt.Sprint(i, " readings before number 9 were not taken")})
		}
		w.Event(rt.Event{Time: run.End, Kind: "sensor", Name: "disk", Status: "denied", Detail: "open /x: permission denied"})
		w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from x"})
		return w.End(run)
	})
	job() // two attempts, the second one lost
	write(rich[:60], same, ended)
	write(rich[:90], func(r *rt.Run) { r.Attempt, r.Start = 1, r.Start.Add(time.Hour) }, func(w *spool.Writer, run rt.Run) error {
		path := w.Path()
		if err := w.Close(); err != nil {
			return err
		}
		return runtest.Open(t, path).CloseLost(rt.Exit{}, "another boot")
	})
	job() // two nodes
	for _, node := range []string{"n1", "n2"} {
		write(rich, func(r *rt.Run) { r.Node, r.NodeList, r.NumNodes = node, "n[1-2]", rt.Some[uint64](2) }, ended)
	}
	job() // its tracker died, and no drain has noticed it
	write(rich[:70], same, func(w *spool.Writer, _ rt.Run) error { return w.Close() })
	job() // no reading
	write(nil, same, ended)
	job() // nothing was read
	write([]rt.Snapshot{{Boot: 1e9, Wall: start.UnixNano()}, {Boot: 2e9, Wall: start.UnixNano() + 1e9}}, same, ended)
	job() // the clock was set, and counters fell
	steps := richSnapshots()
	for i := range steps {
		if i > 40 {
			steps[i].Wall -= 3600e9
		}
		if i > 80 {
			steps[i].Job.CPUUsage, steps[i].Node.NetRxBytes = rt.Some(uint64(i)), rt.Some(uint64(i))
		}
	}
	write(steps, same, ended)
	job() // reports of other programs
	write(rich, same, func(w *spool.Writer, run rt.Run) error {
		for i := range int64(3) {
			err := w.Record(rt.ForeignReport{Time: run.Start.UnixNano() + 1e9*i, Source: "gempba", Body: []byte(programLine(1000*i, "null", `{"worker_id":0,"tasks_local_total":1}`))})
			if err != nil {
				return err
			}
		}
		return w.End(run)
	})
	job() // a task of an array, thinned
	write(rich, func(r *rt.Run) { r.ArrayJobID, r.ArrayTaskID = rt.Some[uint64](900), rt.Some[uint64](3) }, ended)
	return jobs
}

// age is how long ago a running job was read, which grows while a test runs.
var age = regexp.MustCompile(`[0-9][0-9:.-]*( s)? ago\b`)

// output returns what rt-spool prints for a spool, without the name of its directory and ages.
func output(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), append([]string{"rt-spool", "--config", os.DevNull, "--spool", dir}, args...), &stdout, &stderr)
	printed := strings.ReplaceAll(stdout.String()+stderr.String(), dir, "SPOOL")
	return fmt.Sprintf("status %d\n%s", status, age.ReplaceAllString(printed, "AGE"))
}

// A run that goes through a record is the same run to every report and every export, to the byte.
func TestRecordKeepsEveryReport(t *testing.T) {
	t.Setenv("TZ", "UTC")
	here, there, records := t.TempDir(), t.TempDir(), t.TempDir()
	jobs := kinds(t, here)
	var names []string
	entries, err := spool.List(here)
	if err != nil {
		t.Fatal(err)
	}
	imported := []string{"import", "--format", "record"}
	for _, e := range entries {
		name := strings.TrimSuffix(filepath.Base(e.Path), ".db")
		names = append(names, name)
		file := filepath.Join(records, name)
		imported = append(imported, file)
		if got := output(t, here, "export", "--format", "record", "--output", file, e.Path); got != "status 0\n" {
			t.Fatalf("export %s: %s", name, got)
		}
	}
	if got := output(t, there, imported...); !strings.HasPrefix(got, "status 0\n") {
		t.Fatalf("import: %s", got)
	}
	commands := [][]string{{"jobs"}, {"verify"}, {"report", "--array", "900"}}
	for _, job := range jobs {
		commands = append(commands, []string{"report", "-v", "--explain", job}, []string{"report", "--json", job}, []string{"report", "--html", "-", job},
			[]string{"report", "--format", "json", job}, []string{"report", "--format", "markdown", job}, []string{"report", "--format", "oneline", job})
	}
	for _, name := range names {
		for _, e := range exporters {
			commands = append(commands, []string{"export", "--scope", "job", "--format", e.format, name})
		}
		commands = append(commands, []string{"export", "--scope", "node", name}, []string{"top", "--once", name})
	}
	if testing.Short() {
		commands = someOfEach(commands, 20, random.Below(t, 20))
	}
	good := 0
	for _, args := range commands {
		want, got := output(t, here, args...), output(t, there, args...)
		if strings.HasPrefix(want, "status 0\n") {
			good++
		}
		if got != want {
			t.Errorf("%q (-want +got):\n%.3000s", args, cmp.Diff(want, got))
		}
	}
	if good < len(commands)*9/10 {
		t.Errorf("only %d of %d commands succeed", good, len(commands))
	}
}

// someOfEach returns every nth command of each kind, at least one. Commands that differ only in their last argument
// are of one kind. first determines with which argument it begins.
func someOfEach(all [][]string, n, first int) (some [][]string) {
	var kinds []string
	of := map[string][][]string{}
	for _, args := range all {
		kind := strings.Join(args[:max(len(args)-1, 1)], " ")
		if of[kind] == nil {
			kinds = append(kinds, kind)
		}
		of[kind] = append(of[kind], args)
	}
	for i, kind := range kinds {
		list := of[kind]
		for at := (first + i) % min(n, len(list)); at < len(list); at += n {
			some = append(some, list[at])
		}
	}
	return some
}
