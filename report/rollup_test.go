package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
)

// onNode is a summary of a run on a node that used so many CPU seconds of 100 and
// so many GiB of 8.
func onNode(job uint64, node string, used, gib float64) *Summary {
	s := &Summary{Run: rt.Run{Identity: rt.Identity{Cluster: "c", JobID: u(job), Node: node}, Allocation: rt.Allocation{NumNodes: u(2)}, Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished}}}
	s.Label = s.Run.Label()
	s.ElapsedSecs, s.CPU.Cores, s.CPU.CoresOf = rt.Some(100.0), u(1), "allocation"
	s.CPU.UsedSecs, s.CPU.AllocatedSecs, s.CPU.UsedPct = rt.Some(used), rt.Some(100.0), rt.Some(used)
	s.Memory.PeakBytes, s.Memory.LimitBytes, s.Memory.PeakPct = u(uint64(gib*(1<<30))), u(8<<30), rt.Some(gib/8*100)
	s.Memory.OOMKills, s.Record.Complete = u(0), true
	return s
}

// screen asserts what every screen is: lines of 80 columns at most, few of them.
func screen(t *testing.T, name string, write func(*strings.Builder) error) {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) > 48 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 80 {
			t.Errorf("more than 80 columns: %s", l)
		}
	}
	golden(t, name, b.String())
}

// If the CPU time of one node is a lower bound, the CPU time of the job is one, too.
func TestTogetherAtLeast(t *testing.T) {
	for _, mark := range []Mark{Exact, AtLeast} {
		list := []*Summary{onNode(12, "n1", 90, 2), onNode(12, "n2", 30, 6)}
		list[1].CPU.UsedMark = mark
		Together(list)
		used := Jobs(list)[0].rows()[0].used
		if list[0].Nodes.UsedMark != mark || used != mark.Of("00:02:00") {
			t.Errorf("%q: %+v, %s", mark, list[0].Nodes, used)
		}
	}
}

func TestTogether(t *testing.T) {
	list := []*Summary{onNode(12, "n1", 90, 2), onNode(12, "n2", 30, 6), onNode(13, "n1", 5, 1)}
	Together(list)
	n := list[0].Nodes
	if n == nil || n != list[1].Nodes || list[2].Nodes != nil {
		t.Fatal("the runs of a job do not have their sum, or a single one has")
	}
	if n.UsedSecs != rt.Some(120.0) || n.UsedPct != rt.Some(60.0) || n.Cores != u(2) || n.CPUImbalance != rt.Some(1.5) {
		t.Errorf("CPU %+v", n)
	}
	if n.WorstPct != rt.Some(75.0) || n.MeanPct != rt.Some(50.0) || n.Nodes[0].Node != "n2" || !n.Complete {
		t.Errorf("memory %+v", n)
	}
	screen(t, "nodes.txt", func(b *strings.Builder) error {
		return WriteText(b, Jobs(list)[0], TextOptions{Zone: time.UTC, Width: 80})
	})
}

// What one node does not know is not known of all, and never counts as nothing.
func TestTogetherWithWhatIsAbsent(t *testing.T) {
	a, b := onNode(12, "n1", 90, 2), onNode(12, "n2", 30, 6)
	b.CPU.UsedSecs, b.Memory.PeakPct, b.Memory.OOMKills, b.Record.Complete = rt.None[float64](), rt.None[float64](), rt.None[uint64](), false
	a.Run.NumNodes = u(3)
	Together([]*Summary{a, b})
	n := a.Nodes
	if n.UsedSecs.Valid() || n.UsedPct.Valid() || n.MeanPct.Valid() || n.OOMKills.Valid() || n.Complete {
		t.Errorf("%+v", n)
	}
	if n.WorstPct != rt.Some(25.0) {
		t.Errorf("the worst that is known: %v", n.WorstPct)
	}
}

// A node is in an attempt once, whatever the restart count says.
func TestAttemptsAreKeptApart(t *testing.T) {
	list := []*Summary{onNode(12, "n1", 10, 1), onNode(12, "n2", 10, 1), onNode(12, "n1", 50, 4), onNode(12, "n2", 60, 5)}
	Together(list)
	if list[0].Nodes == list[2].Nodes || list[2].Nodes.UsedSecs != rt.Some(110.0) || list[1].Nodes.UsedSecs != rt.Some(20.0) {
		t.Errorf("first %+v, second %+v", list[0].Nodes, list[2].Nodes)
	}
}

// arrayOf is an array of n tasks. Task 7 is large, task 9 slow and killed, task 11 has no end in its record, and task
// 3 was requeued.
func arrayOf(n uint64) []*Summary {
	var list []*Summary
	add := func(i uint64, used, gib float64) *Summary {
		s := onNode(1000+i, fmt.Sprintf("n%d", i%3), used, gib)
		s.Run.ArrayJobID, s.Run.ArrayTaskID, s.Run.Start = u(1000), u(i), start.Add(time.Duration(i)*time.Second)
		s.Run.NumNodes, s.Label = u(1), s.Run.Label()
		list = append(list, s)
		return s
	}
	for i := range n {
		if i == 3 {
			add(i, 1, 0.1).Run.Outcome = rt.OutcomeCancelled
		}
		s := add(i, 50+float64(i%5), 1+float64(i%4)/10)
		switch i {
		case 7:
			s.Memory.PeakBytes, s.Memory.PeakPct = u(7<<30), rt.Some(87.5)
		case 9:
			s.ElapsedSecs, s.Run.Outcome, s.Memory.OOMKills = rt.Some(900.0), rt.OutcomeOOM, u(2)
		case 11:
			s.Record.Complete, s.CPU.UsedSecs = false, rt.Some(99999.0)
		}
	}
	return list
}

func TestArrayRollUp(t *testing.T) {
	a := RollUp("1000", arrayOf(20))
	if len(a.Tasks) != 20 || a.Complete != 19 || a.Earlier != 1 || a.Outcomes["finished"] != 19 || a.Outcomes["oom"] != 1 {
		t.Errorf("%d tasks, %d complete, %d earlier, outcomes %v", len(a.Tasks), a.Complete, a.Earlier, a.Outcomes)
	}
	if a.Tasks[2].Job != "1000_2" || a.Tasks[10].Job != "1000_10" {
		t.Errorf("order: %s, %s", a.Tasks[2].Job, a.Tasks[10].Job)
	}
	if a.Used.N != 19 || a.Used.Max != rt.Some(54.0) || a.Elapsed.P50 != rt.Some(100.0) || a.OOMKills != u(2) {
		t.Errorf("CPU %+v, elapsed %+v, kills %v", a.Used, a.Elapsed, a.OOMKills)
	}
	want := []Outlier{
		{"1000_9", "n0", "elapsed_secs", 900, 100},
		{"1000_7", "n1", "memory_peak_bytes", 7 << 30, 1.1 * (1 << 30)},
	}
	if len(a.Outliers) != 2 || a.Outliers[0] != want[0] || a.Outliers[1].Job != want[1].Job || math.Abs(a.Outliers[1].Median-want[1].Median) > 1 {
		t.Errorf("outliers %+v, want %+v", a.Outliers, want)
	}
	screen(t, "array.txt", func(b *strings.Builder) error {
		return WriteArray(b, a, "text", TextOptions{Zone: time.UTC, Width: 80})
	})
	doc, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "array.json", string(doc)+"\n")
}

func TestArrayOfNothing(t *testing.T) {
	s := onNode(1, "n1", 1, 1)
	s.Record.Complete = false
	a := RollUp("1", []*Summary{s})
	if a.Elapsed.N != 0 || a.Elapsed.P50.Valid() || len(a.Tasks) != 1 {
		t.Errorf("%+v", a)
	}
	screen(t, "array-nothing.txt", func(b *strings.Builder) error {
		return WriteArray(b, a, "text", TextOptions{Zone: time.UTC, Width: 80})
	})
}

// Without a task that shows what it needs, a killed one gives the advice, or else the reason why
// there is none.
func TestArrayAdviceWithoutACompleteTask(t *testing.T) {
	var list []*Summary
	for i := range uint64(3) {
		s := onNode(1000+i, "n1", 5, 1)
		s.Run.ArrayJobID, s.Run.ArrayTaskID, s.Run.NumNodes, s.ElapsedSecs = u(1000), u(i), u(1), rt.Some(10.0)
		s.Label, s.Scope = s.Run.Label(), ScopeJob
		list = append(list, s)
	}
	if a := RollUp("1000", list); len(a.Advice) > 0 || a.AdviceReason != "the tasks were too short: less than 60 s" {
		t.Errorf("short tasks: %+v, %q", a.Advice, a.AdviceReason)
	}
	list[1].Run.Outcome, list[1].Memory.OOMKills = rt.OutcomeOOM, u(1)
	if a := RollUp("1000", list); len(a.Advice) != 1 || a.Advice[0].Request != "--mem=16G" {
		t.Errorf("a killed task: %+v, %q", a.Advice, a.AdviceReason)
	}
}

// As soon as one task is killed for memory, the next array needs more memory for each task, whatever the others used.
func TestArrayAdviceAfterAKill(t *testing.T) {
	for killed := range uint64(4) {
		var list []*Summary
		for i := range uint64(4) {
			s := ran(1000+i, "n1", 0.02, 7200)
			s.Run.ArrayJobID, s.Run.ArrayTaskID, s.Run.Start = u(1000), u(i), start
			s.Label, s.Memory.LimitBytes = s.Run.Label(), u(70<<20)
			if i == killed {
				s.Run.Outcome, s.Memory.OOMKills, s.Memory.PeakBytes = rt.OutcomeOOM, u(1), u(70<<20)
			}
			list = append(list, s)
		}
		a := RollUp("1000", list)
		at := slices.IndexFunc(a.Advice, func(one Advice) bool { return one.Resource == "memory" })
		if at < 0 || a.Advice[at].Verdict != More || !strings.HasPrefix(a.Advice[at].Request, "--mem=144M ") || !strings.Contains(a.Advice[at].Text, fmt.Sprintf("a task (1000_%d) was killed", killed)) {
			t.Errorf("task %d was killed: %+v, %q", killed, a.Advice, a.AdviceReason)
		}
	}
}

// A task on two nodes is one task: its CPU time is both's, its memory the worst node's.
func TestArrayTaskOnSeveralNodes(t *testing.T) {
	a, b := onNode(5, "n1", 10, 2), onNode(5, "n2", 30, 6)
	b.Run.Outcome, b.ElapsedSecs = rt.OutcomeFailed, rt.Some(120.0)
	got := RollUp("5", []*Summary{a, b}).Tasks
	if len(got) != 1 || got[0].UsedSecs != rt.Some(40.0) || got[0].PeakBytes != u(6<<30) || got[0].Outcome != rt.OutcomeFailed ||
		got[0].ElapsedSecs != rt.Some(120.0) || !slices.Equal(got[0].Nodes, []string{"n2", "n1"}) {
		t.Errorf("%+v", got)
	}
}

func TestQuantiles(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		q      float64
		want   float64
	}{{[]float64{1}, 0.9, 1}, {[]float64{1, 2}, 0.5, 1.5}, {[]float64{1, 2, 3, 4, 5}, 0.1, 1.4}, {[]float64{1, 2, 3}, 1, 3}} {
		if got := quantile(tt.values, tt.q); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("quantile %v of %v = %v, want %v", tt.q, tt.values, got, tt.want)
		}
	}
}
