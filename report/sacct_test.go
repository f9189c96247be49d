package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func sacctEvent(detail string) rt.Event {
	return rt.Event{Kind: "job", Name: "sacct", Status: "ok", Detail: detail}
}

// textOf is a summary as text, with --verbose.
func textOf(t *testing.T, s *Summary) string {
	t.Helper()
	var b strings.Builder
	if err := WriteText(&b, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC, Width: 80, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSacct: accounting's figures are shown next to ours, each with the reason of the
// difference, and the allowed CPUs next to the CPU time.
func TestSacct(t *testing.T) {
	events := []rt.Event{
		sacctEvent("elapsed_secs=3600 cpu_secs=7000 cpu_user_secs=6300 max_rss_bytes=1073741824 max_rss_step=0 max_rss_node=n1"),
		{Kind: "job", Name: "cpuset", Status: "ok", Detail: "cpus=0-3 mems=0"},
	}
	s := summarized(t, example{run: slurmRun(), events: events, snapshots: jobSnapshots()})
	if len(s.Record.Remarks) != 0 || s.Sacct == nil || len(s.Sacct.Differences) != 3 {
		t.Fatalf("%+v, remarks %q", s.Sacct, s.Record.Remarks)
	}
	cpu := s.Sacct.Differences[0]
	if off := (s.CPU.UsedSecs.Or(0)/7000 - 1) * 100; cpu.Figure != "cpu_secs" || cpu.Sacct != 7000 || math.Abs(cpu.OffPct.Or(1e9)-off) > 1e-9 {
		t.Errorf("%+v", cpu)
	}
	if s.Sacct.UserSecs != rt.Some(6300.0) || s.Sacct.SystemSecs.Valid() {
		t.Errorf("user %v, system %v", s.Sacct.UserSecs, s.Sacct.SystemSecs)
	}
	text := textOf(t, s)
	for _, want := range []string{"sacct        CPU 01:56:40 (ours ", "elapsed 01:00:00 (ours 01:00:00, 0.0 %)", "MaxRSS 1.00 GiB (ours ", "CPU numbers 0-3, NUMA node numbers 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	var b strings.Builder
	s.Sacct.Differences = []Difference{{Figure: "elapsed_secs", Ours: 3600.4, Sacct: 3600}}
	if err := WriteDetails(&b, s, TextOptions{Zone: time.UTC}); err != nil || !strings.Contains(b.String(), "sacct        elapsed 01:00:00\n") {
		t.Errorf("equal figures do not differ: %v\n%s", err, b.String())
	}
	s.compareSacct()
	s.Sacct.Differences[1].OffPct.Set(-0.04)
	s.Sacct.Differences[0].OffPct.Set(-10)
	if text := textOf(t, s); strings.Contains(text, "-0.0 %") || !strings.Contains(text, ", -10.0 %)") {
		t.Errorf("percentages around zero:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestSacctOfNodes: of a job of two nodes accounting's sums are shown next to ours, once.
func TestSacctOfNodes(t *testing.T) {
	var list []*Summary
	for _, node := range []string{"n1", "n2"} {
		run := slurmRun()
		run.Node, run.NumNodes = node, u(2)
		list = append(list, summarized(t, example{run: run, snapshots: jobSnapshots(),
			events: []rt.Event{sacctEvent("elapsed_secs=0 cpu_secs=14000 max_rss_bytes=1073741824 max_rss_step=0 max_rss_node=n2")}}))
	}
	Together(list)
	n := list[0].Nodes
	if len(n.Sacct) != 3 || n.Sacct[0].Ours != n.UsedSecs.Or(0) || n.Sacct[0].Sacct != 14000 || n.Sacct[1].OffPct.Valid() ||
		n.Sacct[2].Ours != float64(list[1].Memory.PeakBytes.Or(0)) {
		t.Errorf("%+v", n.Sacct)
	}
	if len(list[0].Sacct.Differences) != 0 {
		t.Errorf("a node's part is compared with the whole job's: %+v", list[0].Sacct.Differences)
	}
	one := []*Summary{list[0]}
	one[0].Nodes = nil
	if Together(one); one[0].Nodes != nil {
		t.Error("one run is together")
	}
}

// TestSlurmState: Slurm's own state is shown where it says more than the outcome.
func TestSlurmState(t *testing.T) {
	for _, tt := range []struct {
		outcome      rt.Outcome
		source, pair string
		want         string
	}{
		{rt.OutcomeCancelled, "sacct", "state=PREEMPTED", "cancelled (Slurm: PREEMPTED)"},
		{rt.OutcomeFailed, "sacct", "state=NODE_FAIL", "failed (Slurm: NODE_FAIL)"},
		{rt.OutcomeTimeout, "sacct", "state=DEADLINE", "timeout (Slurm: DEADLINE)"},
		{rt.OutcomeCancelled, "sacct", "state=CANCELLED cancelled_by_uid=0", "cancelled (Slurm: CANCELLED by root)"},
		{rt.OutcomeCancelled, "sacct", "state=CANCELLED cancelled_by_uid=1001", "cancelled (Slurm: CANCELLED by its user)"},
		{rt.OutcomeCancelled, "sacct", "state=CANCELLED cancelled_by_uid=1002", "cancelled (Slurm: CANCELLED by uid 1002)"},
		{rt.OutcomeCancelled, "sacct", "state=CANCELLED cancelled_by_uid=-", "cancelled"}, // a name that did not leave
		{rt.OutcomeFinished, "sacct", "state=COMPLETED", "finished"},
		{rt.OutcomeCancelled, "sacct", "state=REQUEUED", "cancelled"},
		{rt.OutcomeFinished, "epilog", "state=NODE_FAIL", "finished"},
		{rt.OutcomeCancelled, "sacct", "elapsed_secs=1", "cancelled"},
	} {
		run := slurmRun()
		run.UID = u(1001)
		run.Outcome, run.OutcomeSource, run.ExitCode, run.ExitSignal, run.DerivedExit = tt.outcome, tt.source, rt.Opt[int64]{}, rt.Opt[int64]{}, rt.Opt[int64]{}
		j := Jobs([]*Summary{summarized(t, example{run: run, snapshots: jobSnapshots(), events: []rt.Event{sacctEvent(tt.pair)}})})[0]
		if got := j.OutcomeText(); got != tt.want {
			t.Errorf("%s by %s, %s: %q, want %q", tt.outcome, tt.source, tt.pair, got, tt.want)
		}
	}
}

// TestSuspended: the time in which a job was suspended is neither run time nor allocated.
func TestSuspended(t *testing.T) {
	plain := summarized(t, example{run: slurmRun(), snapshots: jobSnapshots()})
	s := summarized(t, example{run: slurmRun(), snapshots: jobSnapshots(), events: []rt.Event{sacctEvent("state=COMPLETED elapsed_secs=1800 suspended_secs=1800")}})
	ran := plain.ElapsedSecs.Or(0) - 1800
	cores := float64(s.CPU.Cores.Or(0))
	if s.ElapsedSecs != rt.Some(ran) || ran <= 0 || s.CPU.AllocatedSecs != rt.Some(ran*cores) || s.CPU.UsedPct != rt.Some(plain.CPU.UsedSecs.Or(0)/(ran*cores)*100) {
		t.Errorf("elapsed %v of %v, %+v", s.ElapsedSecs, plain.ElapsedSecs, s.CPU)
	}
	if text := textOf(t, s); !strings.Contains(text, ", suspended 00:30:00") {
		t.Errorf("%s", text)
	}
	list := jobSnapshots()
	for i := range list {
		list[i].Job.Suspended = u(uint64(min(i, 60)) * 10e6)
	}
	running := slurmRun()
	running.State, running.Outcome, running.End = rt.StateRunning, rt.OutcomeNone, time.Time{}
	live := summarized(t, example{run: running, snapshots: list})
	secs := live.SuspendedSecs.Or(0)
	span := live.Record.Last.Sub(live.Record.First).Seconds()
	if secs < 590 || secs > 600 || live.ElapsedSecs != rt.Some(span-secs) || live.Delivered().SuspendedSecs != live.SuspendedSecs {
		t.Errorf("a running job: suspended %v, elapsed %v of %v", live.SuspendedSecs, live.ElapsedSecs, span)
	}
	accounted := summarized(t, example{run: slurmRun(), snapshots: list, events: []rt.Event{sacctEvent("state=COMPLETED elapsed_secs=3600")}})
	if accounted.SuspendedSecs.Valid() {
		t.Errorf("accounting knows of no suspension: %v", accounted.SuspendedSecs)
	}
	none := summarized(t, example{run: slurmRun(), snapshots: jobSnapshots(), events: []rt.Event{sacctEvent("suspended_secs=1e9")}})
	if none.ElapsedSecs != rt.Some(0.0) || none.CPU.UsedPct.Valid() {
		t.Errorf("more than its run time: %v, %+v", none.ElapsedSecs, none.CPU)
	}
}
