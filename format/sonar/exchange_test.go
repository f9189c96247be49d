package sonar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

func summaryOf(t *testing.T, r *spool.Reader) *report.Summary {
	t.Helper()
	last, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.Summarize(r.Run(), nil, r.Scalars(context.Background(), 1, last))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func warnTo(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

func oneFile(name string, text []byte) iter.Seq2[string, io.Reader] {
	return func(yield func(string, io.Reader) bool) { yield(name, bytes.NewReader(text)) }
}

// The report of an imported run is the report of the exported run, within the precision of the
// format.
func TestSonarExchange(t *testing.T) {
	run, snapshots := runtest.Job()
	r := runtest.Spool(t, run, snapshots)
	want := summaryOf(t, r)
	for name, asJSON := range map[string]bool{"csv": false, "json": true} {
		t.Run(name, func(t *testing.T) {
			var out, warn bytes.Buffer
			if err := Export(context.Background(), &out, r, asJSON); err != nil {
				t.Fatal(err)
			}
			made, err := Import(t.TempDir(), nil, "c", oneFile(name, out.Bytes()), warnTo(&warn))
			if err != nil || len(made) != 1 || warn.Len() > 0 {
				t.Fatalf("%v, %v, %s", made, err, &warn)
			}
			back := runtest.Open(t, made[0])
			got := summaryOf(t, back)
			near := func(what string, got, want rt.Opt[float64], within float64) {
				t.Helper()
				if !got.Valid() || math.Abs(got.Or(0)-want.Or(0)) > within {
					t.Errorf("%s is %v, not %v", what, got, want)
				}
			}
			near("CPU time", got.CPU.UsedSecs, want.CPU.UsedSecs, 1)
			near("elapsed", got.ElapsedSecs, want.ElapsedSecs, 1)
			near("mean cores", got.CPU.MeanCores, want.CPU.MeanCores, 0.01*want.CPU.MeanCores.Or(0))
			near("peak cores", got.CPU.PeakCores, want.CPU.PeakCores, 0.2)                                                                                            // a second of ten, twice
			if got.Memory.AnonymousBytes != want.Memory.AnonymousBytes || got.Processes.Max != want.Processes.Max || got.Record.Readings != want.Record.Readings-12 { // those that failed
				t.Errorf("%+v, %+v, %+v\nnot\n%+v, %+v, %+v", got.Memory, got.Processes.Max, got.Record, want.Memory, want.Processes.Max, want.Record)
			}
			if got.Run.User != "anna" || got.Label != "99" || got.Run.Node != "n7" || got.CPU.Cores != rt.Some[uint64](4) {
				t.Errorf("%+v of %v cores", got.Run, got.CPU.Cores)
			}
			if id := got.Run.Meta.ExternalRunID; id != "c:99@n7#0" {
				t.Errorf("external_run_id is %q", id)
			}
			holdGPUs(t, back)
			if problems := back.Verify(context.Background()); len(problems) > 0 {
				t.Errorf("%v", problems)
			}
		})
	}
}

func holdGPUs(t *testing.T, r *spool.Reader) {
	t.Helper()
	n := 0
	for s, err := range r.Snapshots(context.Background(), 1, 200) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			continue
		}
		if s.GPU.Usage != rt.Some(0.75) || s.GPU.VRAMUsed != rt.Some[uint64](20<<30) {
			t.Fatalf("snapshot %d: %+v", s.Seq, s.GPU)
		}
		if len(s.GPUs) != 2 || s.GPUs[1].Utilization != rt.Some(75.0) || s.GPUs[1].VRAMUsed != rt.Some[uint64](20<<30) || s.GPUs[0].Utilization.Valid() {
			t.Fatalf("snapshot %d: %+v", s.Seq, s.GPUs)
		}
	}
}

func TestSonarExportRecords(t *testing.T) {
	run, snapshots := runtest.Job()
	var out bytes.Buffer
	if err := Export(context.Background(), &out, runtest.Spool(t, run, snapshots), false); err != nil {
		t.Fatal(err)
	}
	var list []*Sample
	for rec, err := range Decode(&out) {
		s, ok := rec.(*Sample)
		if err != nil || !ok {
			t.Fatalf("%v: %T", err, rec)
		}
		list = append(list, s)
	}
	if len(list) != 121-12 || list[0].CPUTimeSec != 0 || list[0].RolledUp != 0 {
		t.Fatalf("%d records, the first is %+v", len(list), list[0])
	}
	s := list[4]
	if s.CPUTimeSec != 60 || s.RSSAnonKiB != 5<<10 || s.RolledUp != 4 || s.GPUs.String() != "1" || s.GPUPct != 75 || s.GPUMemPct != 25 || s.GPUKiB != 20<<20 ||
		fmt.Sprint(s.Load) != "[36 0 0 900]" || len(s.GPUInfo) != 2 || s.Cmd != "md" || s.PID != 0 || math.Abs(s.CPUPct-150) > 2 {
		t.Errorf("%+v", s)
	}
	if s := list[5]; s.CPUTimeSec != 90 { // the reading between them failed
		t.Errorf("%+v", s)
	}
}

func TestSonarExportTree(t *testing.T) {
	start := time.Unix(1_772_367_000, 0)
	run := rt.Run{Identity: rt.Identity{Node: "n1", Start: start}, Allocation: rt.Allocation{UID: rt.Some[uint64](1001)}, PID: rt.Some[uint64](77), Command: []string{"/opt/bin/solver", "-x"}, Ending: rt.Ending{State: rt.StateRunning}}
	var list []rt.Snapshot
	for i := range int64(4) { // two readings and one record per second
		list = append(list, rt.Snapshot{
			Seq: i + 1, Wall: start.UnixNano() + i*5e8, Boot: 1e9 + i*5e8,
			Tree: rt.TreeReading{CPUUserTicks: rt.Some(uint64(i * 100)), CPUSystemTicks: rt.Some(uint64(i * 10)), Children: rt.Some(uint64(7 - i))},
		})
	}
	var out bytes.Buffer
	if err := Export(context.Background(), &out, runtest.Spool(t, run, list), false); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), "user=_noinfo_1001,cmd=solver,cpu%=220,cputime_sec=1,rolledup=7\n") ||
		!strings.Contains(out.String(), "cputime_sec=3,rolledup=5\n") {
		t.Errorf("%d records:\n%s", n, &out)
	}
	// A record without a job makes no run.
	var warn bytes.Buffer
	if made, err := Import(t.TempDir(), nil, "", oneFile("x", out.Bytes()), warnTo(&warn)); len(made) != 0 || err != nil || !strings.Contains(warn.String(), "2 records") {
		t.Errorf("%v, %v, %s", made, err, &warn)
	}

	run.PID, run.Command = rt.None[uint64](), nil
	for i := range list {
		list[i].Tree = rt.TreeReading{}
	}
	if err := Export(context.Background(), &out, runtest.Spool(t, run, list), false); !errors.Is(err, errNoProcesses) {
		t.Errorf("the export of a whole node: %v", err)
	}
}

// A process group with the number of a Slurm job is not part of the job.
func TestSonarImportProcessGroup(t *testing.T) {
	const line = "v=0.13.0,time=2026-03-01T12:00:0%d+00:00,host=h,user=%s,cmd=c,job=20,pid=%d,rssanonkib=%d,epoch=%d\n"
	var text []byte
	for i := range 2 {
		text = fmt.Appendf(text, line, i, "daemon", 20, 4000, 7)
		text = fmt.Appendf(text, line, i, "anna", 900, 5, 0)
	}
	var warn bytes.Buffer
	made, err := Import(t.TempDir(), nil, "", oneFile("x", text), warnTo(&warn))
	if err != nil || len(made) != 1 || !strings.Contains(warn.String(), "2 records are of processes without a job") {
		t.Fatalf("%v, %v, %s", made, err, &warn)
	}
	s := summaryOf(t, runtest.Open(t, made[0]))
	if s.Run.User != "anna" || s.Memory.AnonymousBytes != rt.Some[uint64](5<<10) || s.Processes.Max != rt.Some[uint64](1) {
		t.Errorf("%+v, %+v, %+v", s.Run, s.Memory, s.Processes)
	}
}

// Sums that overflow are unknown.
func TestSonarImportSizes(t *testing.T) {
	const line = "v=0.13.0,time=2026-03-01T12:00:0%d+00:00,host=h,user=u,cmd=c,job=1,pid=%d,cputime_sec=4503599627370495,rssanonkib=4503599627370495\n"
	var text []byte
	for i := range 3 {
		text = fmt.Appendf(text, line, 1+i/2, 1+i)
	}
	made, err := Import(t.TempDir(), nil, "", oneFile("x", text), warnTo(io.Discard))
	if err != nil || len(made) != 1 {
		t.Fatalf("%v, %v", made, err)
	}
	for s, err := range runtest.Open(t, made[0]).Snapshots(context.Background(), 2, 3) {
		if err != nil || s.Job.CPUUsage.Valid() || s.Seq == 3 && s.Job.Anon != rt.Some[uint64](4503599627370495<<10) {
			t.Errorf("%v: %+v", err, s.Job)
		}
	}
}
