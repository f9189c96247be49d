package ftdc

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// eventful is a ledger with lines that a report shows.
var eventful = []rt.Event{
	{Kind: "gap", Name: "readings", Status: "late", Detail: "5 readings before number 9 were not taken"},
	{Kind: "sensor", Name: "disk", Status: "denied", Detail: "open /x: permission denied"},
	{Kind: "tracker", Name: "budget", Status: "ok", Detail: "from 1 s to 10 s between readings"},
	{Kind: "tracker", Name: "clock", Status: "ok", Detail: "the clock was set by 3.5 s"},
	{Kind: "tracker", Name: "cost", Status: "ok", Detail: "cpu_user_secs=0.5 cpu_system_secs=0.25 max_rss_kib=20000 left_out=3"},
	{Kind: "tracker", Name: "sensors", Status: "ok", Detail: "cgroup ok, disk denied"},
}

// eventfulRun is runtest.Job with a thousand short processes, an OOM kill, and everything else
// that a report shows.
func eventfulRun(t *testing.T) *spool.Reader {
	t.Helper()
	run, list := runtest.Job()
	run.Outcome, run.OutcomeSource, run.ExitCode, run.GPUs = rt.OutcomeOOM, "kernel", rt.Some[int64](137), "1"
	run.Command = []string{"train"}
	for i := range list {
		n, s := uint64(i), &list[i]
		for k := range uint64(10) {
			s.Procs = append(s.Procs, rt.ProcessReading{
				PID: 100 + 10*n + k, Start: 5, Comm: "sh", Step: "0", UserTicks: rt.Some(n * k % 97), SystemTicks: rt.Some[uint64](1),
				RSS: rt.Some((n * k % 89) << 20), Threads: rt.Some[uint64](1),
			})
		}
		p := rt.ProcessReading{
			PID: 7, Start: 9, Comm: "train", Step: "0", Task: rt.Some[uint64](3), UserTicks: rt.Some(n * 1500), SystemTicks: rt.Some(n),
			RSS: rt.Some[uint64](1 << 30), Threads: rt.Some[uint64](9), ReadBytes: rt.Some(n << 20),
		}
		if n%12 == 0 {
			p.PSS.Set(1 << 29)
		}
		if n%5 != 0 { // processes were not read
			s.Procs = append(s.Procs, p)
		} else {
			s.Procs = nil
		}
		if n > 0 {
			s.GPUs[1].Name, s.GPUProcesses = "H100", []rt.GPUProcessReading{{UUID: "GPU-b", PID: 7 + n/100, VRAMUsed: rt.Some[uint64](20 << 30)}}
		}
		if s.Job.CPUUsage.Valid() {
			s.Job.EventsOOMKill, s.Job.MemLimit = rt.Some(n/61), rt.Some[uint64](2<<30)
		}
		s.Steps = []rt.StepReading{{Step: "0", CPUUsage: rt.Some(n * 1e7), MemPeak: rt.Some(n << 20)}}
		s.Energy = []rt.EnergyReading{{Source: "powercap", Kind: rt.EnergyPackage, Domain: "package-0", Energy: rt.Some(n * 5e8)}}
		s.Fabrics = []rt.FabricReading{{Device: "mlx5_0", Port: 1, RxBytes: rt.Some(n << 30), State: "ACTIVE", Link: "InfiniBand"}}
	}
	w, err := spool.Create(t.TempDir(), run, rt.Host{HostName: "n7", CPUModel: "EPYC"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	run.End = time.Unix(0, list[len(list)-1].Wall).UTC()
	for _, e := range eventful {
		e.Time = run.Start.Add(time.Minute)
		w.Event(e)
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return runtest.Open(t, w.Path())
}

// reportOf returns the report as JSON.
func reportOf(t *testing.T, r *spool.Reader) []byte {
	t.Helper()
	last, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.Summarize(r.Run(), events, r.Snapshots(context.Background(), 1, last))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The report of an imported run is the report of the exported run, to the last figure.
func TestFTDCReport(t *testing.T) {
	r := eventfulRun(t)
	want := reportOf(t, r)
	for _, part := range []string{`"comm": "train"`, `"pss_bytes": 536870912`, `"gaps": 1`, `"left_out": 3`, `"name": "H100"`, `"oom"`, `"processes": 2`} {
		if !bytes.Contains(want, []byte(part)) {
			t.Errorf("the report has no %s:\n%s", part, want)
		}
	}
	var file bytes.Buffer
	if err := Export(t.Context(), &file, r); err != nil {
		t.Fatal(err)
	}
	made, err := Import(t.TempDir(), nil, "x", bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	back := runtest.Open(t, made[0])
	if got := reportOf(t, back); !bytes.Equal(got, want) {
		t.Errorf("-want +got:\n%s", cmp.Diff(string(want), string(got)))
	}
	if back.Host() != r.Host() {
		t.Errorf("the host is %+v, not %+v", back.Host(), r.Host())
	}
	var again bytes.Buffer
	if err := Export(t.Context(), &again, back); err != nil || !bytes.Equal(again.Bytes(), file.Bytes()) {
		t.Errorf("%v; the second export differs: %d bytes, the first has %d", err, again.Len(), file.Len())
	}
	if limit := 512 << 10; file.Len() > limit {
		t.Errorf("the file of 121 readings and 1,211 processes has %d bytes", file.Len())
	}
}
