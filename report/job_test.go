package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func only(t *testing.T, list ...*Summary) *JobSummary {
	t.Helper()
	jobs := Jobs(list)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	return jobs[0]
}

// A job that was requeued is one job, which knows its earlier attempts, or a job for each of them.
func TestAttempts(t *testing.T) {
	var list []*Summary
	for i, job := range []uint64{12, 13, 12, 12} {
		s := onNode(job, "n1", 10, 1)
		s.Run.Attempt = uint64(i)
		list = append(list, s)
	}
	numbers := func(jobs []*JobSummary) (out [][]uint64) {
		for _, j := range jobs {
			n := []uint64{j.Runs[0].Run.Attempt}
			for _, e := range j.Earlier {
				n = append(n, e.Number)
			}
			out = append(out, n)
		}
		return out
	}
	for name, tt := range map[string]struct {
		jobs []*JobSummary
		want [][]uint64 // the attempt, then the earlier ones
	}{
		"jobs":     {Jobs(list), [][]uint64{{3, 0, 2}, {1}}},
		"attempts": {Attempts(list), [][]uint64{{0}, {1}, {2, 0}, {3, 0, 2}}},
	} {
		if got := numbers(tt.jobs); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// If the spool has only some nodes of a job, the report names the others.
func TestJobNamesItsMissingNodes(t *testing.T) {
	for _, tt := range []struct {
		name, list string
		nodes      uint64
		here       []string
		want       string
	}{
		{"all", "n[1-2]", 2, []string{"n1", "n2"}, ""},
		{"one", "n[1-2]", 2, []string{"n1"}, "1 of 2 nodes: n2 has not delivered"},
		{"two", "n[1-3]", 3, []string{"n2"}, "1 of 3 nodes: n1, n3 have not delivered"},
		{"many", "n[1-9]", 9, []string{"n2"}, "1 of 9 nodes: n1, n3, n4, n5 and 4 more have not delivered"},
		{"no list", "", 2, []string{"n1"}, "1 of 2 nodes: the others have not delivered"},
		{"other names", "m[1-2]", 2, []string{"n1"}, "1 of 2 nodes: the others have not delivered"},
		{"not a list", "n[1-", 2, []string{"n1"}, "1 of 2 nodes: the others have not delivered"},
	} {
		var list []*Summary
		for _, node := range tt.here {
			s := onNode(12, node, 10, 1)
			s.Run.NodeList, s.Run.NumNodes = tt.list, u(tt.nodes)
			list = append(list, s)
		}
		j := only(t, list...)
		if got := j.missingText(); got != tt.want || j.Complete() != (tt.want == "") {
			t.Errorf("%s: %q, complete %v, want %q", tt.name, got, j.Complete(), tt.want)
		}
	}
}

// A job has one outcome, whatever its nodes recorded.
func TestJobHasOneOutcome(t *testing.T) {
	type node struct {
		outcome rt.Outcome
		source  string
	}
	for _, tt := range []struct {
		a, b node
		want rt.Outcome
	}{
		{node{rt.OutcomeFinished, "kernel"}, node{rt.OutcomeUnknown, "epilog"}, rt.OutcomeFinished},
		{node{rt.OutcomeFinished, "kernel"}, node{rt.OutcomeOOM, "kernel"}, rt.OutcomeOOM},
		{node{rt.OutcomeFinished, "kernel"}, node{rt.OutcomeLost, "drain"}, rt.OutcomeFinished},
		{node{rt.OutcomeFailed, "epilog"}, node{rt.OutcomeTerminated, "kernel"}, rt.OutcomeTerminated},
		{node{rt.OutcomeTimeout, "sacct"}, node{rt.OutcomeCancelled, "kernel"}, rt.OutcomeTimeout},
		{node{rt.OutcomeCancelled, "sacct"}, node{rt.OutcomeOOM, "kernel"}, rt.OutcomeCancelled},
	} {
		for _, order := range [][2]node{{tt.a, tt.b}, {tt.b, tt.a}} {
			a, b := onNode(12, "n1", 10, 1), onNode(12, "n2", 10, 1)
			a.Run.Outcome, a.Run.OutcomeSource = order[0].outcome, order[0].source
			b.Run.Outcome, b.Run.OutcomeSource = order[1].outcome, order[1].source
			if got := only(t, a, b).Outcome; got != tt.want {
				t.Errorf("%v: %q, want %q", order, got, tt.want)
			}
		}
	}
	a, b := onNode(12, "n1", 10, 1), onNode(12, "n2", 10, 1)
	b.Run.Ending = rt.Ending{State: rt.StateRunning}
	if j := only(t, a, b); j.State != rt.StateRunning || j.Outcome != rt.OutcomeNone {
		t.Errorf("one node runs: %+v", j.Ending)
	}
	b.Abandoned = true
	if j := only(t, a, b); j.State != rt.StateEnded || j.Outcome != rt.OutcomeFinished {
		t.Errorf("the tracker of one node died: %+v", j.Ending)
	}
}

func TestJobTakesTheLastAttempt(t *testing.T) {
	first, second, third := onNode(12, "n1", 10, 1), onNode(12, "n1", 50, 4), onNode(12, "n1", 60, 5)
	first.Run.Outcome, second.Run.Attempt, third.Run.Attempt = rt.OutcomeTerminated, 1, 1
	j := only(t, first, second, third)
	if len(j.Earlier) != 2 || j.Earlier[0].Outcome != rt.OutcomeTerminated || j.Earlier[1].Number != 1 || j.Nodes.UsedSecs != rt.Some(60.0) || len(j.Runs) != 1 {
		t.Errorf("%+v", j)
	}
}

// Each array task, each step with a run of its own, and each run outside a scheduler is a separate
// job.
func TestJobsAreKeptApart(t *testing.T) {
	list := arrayOf(4)
	step, alone, other := onNode(12, "n1", 1, 1), onNode(0, "n1", 1, 1), onNode(0, "n1", 1, 1)
	step.Run.Step, step.Run.NumNodes = "0", u(7)
	step.Label = step.Run.Label()
	alone.Run.JobID, other.Run.JobID = rt.None[uint64](), rt.None[uint64]()
	alone.Label, other.Label = "-", "-"
	jobs := Jobs(append(list, onNode(12, "n1", 1, 1), step, alone, other))
	var labels []string
	for _, j := range jobs {
		labels = append(labels, j.Label)
	}
	if want := []string{"1000_0", "1000_1", "1000_2", "1000_3", "12", "12.0", "-", "-"}; !slices.Equal(labels, want) {
		t.Errorf("%q, want %q", labels, want)
	}
	if jobs[5].Missing != 0 {
		t.Error("the nodes of a step are not those of its job")
	}
}

// The steps, the GPUs and the time of a job cover all of its nodes.
func TestJobOverItsNodes(t *testing.T) {
	a, b := onNode(12, "n1", 90, 2), onNode(12, "n2", 30, 6)
	task := func(n uint64, secs float64, mib uint64) Task {
		return Task{Task: n, Figures: Figures{Used: Used{UsedSecs: rt.Some(secs)}, PeakMemory: PeakMemory{PeakBytes: u(mib << 20)}}}
	}
	a.Steps = []Step{{Step: "batch", Figures: Figures{Used: Used{UsedSecs: rt.Some(1.0)}, PeakMemory: PeakMemory{PeakBytes: u(1)}}}, {Step: "0", Figures: Figures{Used: Used{UsedSecs: rt.Some(80.0)}, PeakMemory: PeakMemory{PeakBytes: u(50)}}, Tasks: []Task{task(0, 80, 50)}}}
	b.Steps = []Step{{Step: "0", Figures: Figures{Used: Used{UsedSecs: rt.Some(20.0)}, PeakMemory: PeakMemory{PeakBytes: u(500)}}, Tasks: []Task{task(0, 20, 500)}}}
	a.GPUs = []GPU{{GPUPart: GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(80.0), Processes: 1}, MaxBusyPct: rt.Some(100.0), VRAMPeakBytes: u(10), VRAMTotalBytes: u(40)}}
	b.GPUs = []GPU{{GPUPart: GPUPart{BusyPct: rt.Some(0.0)}, MaxBusyPct: rt.Some(0.0), VRAMPeakBytes: u(1), VRAMTotalBytes: u(2)}}
	a.Run.Start, b.Run.Start = start.Add(2*time.Second), start.Add(3*time.Second)
	a.Run.JobStart, a.Run.JobEndLimit = start, start.Add(200*time.Second)
	j := only(t, b, a)
	if len(j.Steps) != 2 || j.Steps[0].Step != "batch" || j.Steps[0].Nodes != 1 {
		t.Fatalf("steps %+v", j.Steps)
	}
	if s := j.Steps[1]; s.Nodes != 2 || s.Tasks != 2 || s.UsedSecs != rt.Some(100.0) || s.PeakBytes != u(500) || s.PeakNode != "n2" || s.CPUImbalance != rt.Some(1.6) {
		t.Errorf("step 0: %+v", s)
	}
	if g := j.GPUs; g.Count != 2 || g.Idle != 1 || g.BusyPct != rt.Some(40.0) || g.WorstVRAMPct != rt.Some(50.0) {
		t.Errorf("GPUs %+v", g)
	}
	if !j.Start.Equal(start) || j.LimitSecs != rt.Some(200.0) || j.TimePct != rt.Some(50.0) || j.Runs[0].Run.Node != "n1" {
		t.Errorf("%+v", j)
	}
}

// Slurm uses ids again: two jobs with one id are two jobs, also if no node is in both. A job that was held for months
// before it was requeued is one.
func TestJobsWithOneID(t *testing.T) {
	run := func(node, user string, day int, attempt uint64) *Summary {
		s := onNode(12, node, 10, 1)
		s.Run.User, s.Run.Attempt, s.Run.Start = user, attempt, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, day)
		s.Run.End = s.Run.Start.Add(time.Hour)
		return s
	}
	for name, tt := range map[string]struct {
		list []*Summary
		want string
	}{
		"two nodes":               {[]*Summary{run("n1", "alice", 0, 0), run("n2", "alice", 0, 0)}, "2+0"},
		"a later job":             {[]*Summary{run("n1", "alice", 0, 0), run("n1", "alice", 300, 0)}, "1+0 1+0"},
		"a later job, other node": {[]*Summary{run("n1", "alice", 0, 0), run("n2", "alice", 300, 0)}, "1+0 1+0"},
		"of another user":         {[]*Summary{run("n1", "alice", 0, 0), run("n2", "bob", 1, 0)}, "1+0 1+0"},
		"of a user not known":     {[]*Summary{run("n1", "alice", 0, 0), run("n2", "", 0, 0)}, "2+0"},
		"requeued":                {[]*Summary{run("n1", "alice", 0, 0), run("n1", "alice", 1, 1)}, "1+1"},
		"requeued after months":   {[]*Summary{run("n1", "alice", 0, 0), run("n1", "alice", 100, 1)}, "1+1"},
		"three jobs":              {[]*Summary{run("n1", "alice", 0, 0), run("n1", "alice", 1, 1), run("n1", "alice", 300, 0), run("n2", "alice", 300, 0)}, "1+1 2+0"},
	} {
		var got []string
		for _, j := range Jobs(tt.list) {
			got = append(got, fmt.Sprintf("%d+%d", len(j.Runs), len(j.Earlier)))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}
