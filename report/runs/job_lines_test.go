package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm/accounting"
)

// Users choose the names of jobs. A spreadsheet must not execute one.
func TestJobsCSVHasNoFormulas(t *testing.T) {
	for _, name := range []string{"=1+1", "+1", "-1", "@SUM(A1)"} {
		records := Records([]Line{{Name: name, ExitCode: rt.Some[int64](1)}})
		if row := "," + strings.Join(records[1], ",") + ","; !strings.Contains(row, ",'"+name+",") {
			t.Errorf("the name %q is in %q", name, row)
		}
	}
}

// The name of a job is no path: a star also matches a slash.
func TestFilterOfNames(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a*", "a/b", true}, {"*b", "a/b", true}, {"a?b", "a/b", true}, {"a[^b]b", "a/b", true}, {"a/*", "a/b", true}, {"a/b", "a/b", true}, {`a\/b`, "a/b", true},
		{"a*", "b/a", false}, {"a/*", "ab", false}, {"a", "a/b", false},
	} {
		l := &Collected{Summaries: []*report.Summary{{Run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1"}, Meta: rt.Metadata{JobName: tt.name}}}}}
		if got := len(l.Lines(Filter{Name: tt.pattern}, false, report.DefaultPrices)) == 1; got != tt.want {
			t.Errorf("%s matches %s: %v", tt.pattern, tt.name, got)
		}
	}
}

// A job that only the queue has is of all of its nodes, and has no run here.
func TestNodesOfTheQueue(t *testing.T) {
	queue := []accounting.Queued{
		{JobID: 12, Label: "12", State: "RUNNING", NodeList: "n[7-8]", Nodes: rt.Some[uint64](2), Cores: rt.Some[uint64](16)},
		{JobID: 13, Label: "13", State: "RUNNING", NodeList: "n7"},
	}
	l := &Collected{}
	l.JoinQueue(queue)
	jobs := report.Jobs(l.Summaries)
	for i, want := range []struct {
		missing uint64
		names   []string
	}{{2, []string{"n7", "n8"}}, {0, nil}} {
		line := LineOf(jobs[i], report.DefaultPrices)
		if line.Nodes != 0 || line.MissingNodes != want.missing || !slices.Equal(jobs[i].MissingNodes, want.names) {
			t.Errorf("%s: %d nodes, %d missing: %v", line.Job, line.Nodes, line.MissingNodes, jobs[i].MissingNodes)
		}
	}
}

// The run of a job hides the runs of its steps on the same node. It does not hide the steps of an attempt without a
// run of the whole job. All attempts of a step have the number 0.
func TestWholeJobsHideTheirSteps(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	run := func(step string, attempt uint64, start, end int) *report.Summary {
		s := &report.Summary{Run: rt.Run{Identity: rt.Identity{Cluster: "c", JobID: rt.Some[uint64](12), Node: "n1", Step: step, Attempt: attempt, Start: at(start)}}}
		if end > 0 {
			s.Run.End = at(end)
		}
		return s
	}
	late := run("", 0, 3, 10)
	late.Run.JobStart = at(0)
	for name, tt := range map[string]struct {
		list []*report.Summary
		left int
	}{
		"a step":                                {[]*report.Summary{run("", 0, 1, 10), run("0", 0, 2, 3)}, 1},
		"a step of a job that runs":             {[]*report.Summary{run("", 0, 1, 0), run("0", 0, 2, 0)}, 1},
		"a step of a job that was requeued":     {[]*report.Summary{run("", 2, 1, 10), run("0", 0, 2, 3)}, 1},
		"a step before a late tracker":          {[]*report.Summary{late, run("0", 0, 1, 2)}, 1},
		"a step of a later attempt":             {[]*report.Summary{run("", 0, 1, 10), run("0", 0, 12, 13)}, 2},
		"a step of a later attempt that runs":   {[]*report.Summary{run("", 0, 1, 10), run("0", 0, 12, 0)}, 2},
		"a step of an earlier attempt":          {[]*report.Summary{run("", 1, 5, 10), run("0", 0, 1, 2)}, 2},
		"steps of two attempts, one as a whole": {[]*report.Summary{run("0", 0, 1, 2), run("", 1, 5, 10), run("0", 0, 6, 7)}, 2},
	} {
		if left := WholeJobs(tt.list); len(left) != tt.left {
			t.Errorf("%s: %d runs are left, want %d", name, len(left), tt.left)
		}
	}
}

// A job that srun made for resource-tracker is one line, with the name of the command.
func TestJobOfSrun(t *testing.T) {
	job := &report.Summary{Run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1"}, Meta: rt.Metadata{JobName: "resource-tracker"}}}
	step := &report.Summary{Run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Step: "0"}, Meta: rt.Metadata{JobName: "relax"}}}
	all := Collected{Summaries: []*report.Summary{job, step}}
	if lines := all.Lines(Filter{}, false, report.DefaultPrices); len(lines) != 1 || lines[0].Name != "relax" {
		t.Errorf("%+v", lines)
	}
}

// A job that was requeued is a line, or a line for each attempt; the filter selects lines.
func TestLinesOfAttempts(t *testing.T) {
	runs := func() *Collected {
		l := &Collected{}
		for i, outcome := range []rt.Outcome{rt.OutcomeCancelled, rt.OutcomeOOM, rt.OutcomeFinished} {
			l.Summaries = append(l.Summaries, &report.Summary{Run: rt.Run{
				Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Attempt: uint64(i)}, Ending: rt.Ending{State: rt.StateEnded, Outcome: outcome},
			}})
		}
		return l
	}
	for _, tt := range []struct {
		filter Filter
		all    bool
		want   string
	}{
		{Filter{}, false, "finished 3"},
		{Filter{}, true, "cancelled 1, oom 2, finished 3"},
		{Filter{States: []string{"oom"}}, false, ""},
		{Filter{States: []string{"oom"}}, true, "oom 2"},
	} {
		var got []string
		for _, l := range runs().Lines(tt.filter, tt.all, report.DefaultPrices) {
			got = append(got, fmt.Sprintf("%s %d", l.State, l.Attempts))
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%+v, all attempts %v: %q, want %q", tt.filter, tt.all, text, tt.want)
		}
	}
}

// The number of a job's GPUs is null if the GPUs of a node were not read, and 0 without GPUs.
func TestJobsWithGPUsThatWereNotRead(t *testing.T) {
	node := func(name, gpus string, read int) *report.Summary {
		return &report.Summary{
			Run:  rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: name}, Allocation: rt.Allocation{GPUs: gpus}},
			GPUs: make([]report.GPU, read),
		}
	}
	for name, tt := range map[string]struct {
		nodes []*report.Summary
		want  rt.Opt[uint64]
	}{
		"read":             {[]*report.Summary{node("n1", "0,1", 2), node("n2", "", 0)}, rt.Some[uint64](2)},
		"not read":         {[]*report.Summary{node("n1", "0,1", 0)}, rt.None[uint64]()},
		"read on one node": {[]*report.Summary{node("n1", "0,1", 2), node("n2", "0,1", 0)}, rt.None[uint64]()},
		"no GPUs":          {[]*report.Summary{node("n1", "", 0)}, rt.Some[uint64](0)},
	} {
		if l := LineOf(report.Jobs(tt.nodes)[0], report.DefaultPrices); l.GPUs != tt.want {
			t.Errorf("%s: %v, want %v", name, l.GPUs, tt.want)
		}
	}
}

// A lower bound is marked in the table, in JSON and in CSV, from files, from the index and from a site.
func TestLinesHaveMarks(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	makeRun(t, dir, 1) // its last reading is not one of its end
	fromFiles, fromIndex := read(t, dir, cache, 1), read(t, dir, cache, 0)
	delivered, err := json.Marshal(fromFiles.Summaries[0].Delivered())
	if err != nil {
		t.Fatal(err)
	}
	atSite := &report.DeliveredFigures{}
	if err := json.Unmarshal(delivered, atSite); err != nil {
		t.Fatal(err)
	}
	fromSite := &Collected{}
	fromSite.Join([]Copy{copyOf("", atSite.RunFigures.Summary())})
	for name, runs := range map[string]*Collected{"files": fromFiles, "index": fromIndex, "site": fromSite} {
		lines := runs.Lines(Filter{}, false, report.DefaultPrices)
		if l := &lines[0]; l.CPUMark != report.AtLeast || l.MemoryMark != report.AtLeast || l.UnusedMark != report.AtMost {
			t.Errorf("%s: %+v", name, l)
		}
		var table strings.Builder
		if err := PrintJobs(&table, lines, 0); err != nil {
			t.Fatal(err)
		}
		for _, cell := range []string{" >=50.0 ", " >=25.0 ", " <=0.01"} {
			if !strings.Contains(table.String(), cell) {
				t.Errorf("%s: no %q in\n%s", name, cell, table.String())
			}
		}
		records := Records(lines)
		for column, want := range map[string]string{"cpu_mark": "at least", "memory_mark": "at least", "core_hours_unused_mark": "at most"} {
			if i := slices.Index(records[0], column); i < 0 || records[1][i] != want {
				t.Errorf("%s: CSV %q, want %s %q", name, records, column, want)
			}
		}
	}
}

// The figures of a running job are not final, so no sum has them: see docs/waste.md.
func TestSumsOfRunningJobs(t *testing.T) {
	line := func(state rt.State, waste rt.Opt[float64]) Line {
		secs := rt.Map(waste, func(hours float64) float64 { return hours * 3600 })
		sum := report.Sum{Balance: report.Balance{CoreSecs: rt.Some(7200.0)}, WasteSecs: secs}
		sum.NotUsed[0].Set(3600)
		return Line{User: "anna", State: string(state), WasteHours: waste, Sum: sum}
	}
	lines := []Line{line("finished", rt.Some(1.5)), line("lost", rt.None[float64]()), line(rt.StateRunning, rt.Some(4.0))}
	sums := SumsBy(lines, "user", report.DefaultPrices)
	if len(sums) != 1 || sums[0].Jobs != 3 || sums[0].Known != 1 || sums[0].WasteHours != rt.Some(1.5) || sums[0].CoreHours != rt.Some(4.0) {
		t.Errorf("%+v", sums)
	}
	const note = "1 of 3 jobs are running: running jobs are not in the sums\n1 of 3 jobs have no figures of their waste"
	var b strings.Builder
	if err := PrintSums(&b, sums, "user", 0); err != nil || !strings.Contains(b.String(), note) {
		t.Errorf("%v: %s", err, &b)
	}
	b.Reset()
	bound := line("finished", rt.Some(1.5))
	bound.Sum.CoreMark = report.AtLeast
	atMost := SumsBy([]Line{lines[0], bound}, "user", report.DefaultPrices)
	if err := PrintSums(&b, atMost, "user", 0); err != nil || strings.Count(b.String(), "<=") != 2 {
		t.Errorf("a sum with a bound: %v: %s", err, &b)
	}
	b.Reset()
	if atMost[0].Print(&b, &report.DefaultPrices); b.String() != "Together: at most 2.00 of 4.00 core-hours not used; waste at most 3.00 core-hours\n" {
		t.Error(b.String())
	}
	b.Reset()
	all := SumOf(lines, report.DefaultPrices)
	all.Print(&b, &report.DefaultPrices)
	if !strings.HasPrefix(b.String(), "Together: 2.00 of 4.00 core-hours not used; waste 1.50 core-hours\n"+note) {
		t.Error(b.String())
	}
	b.Reset()
	all = SumOf(lines[:1], report.DefaultPrices)
	if all.Print(&b, &report.DefaultPrices); strings.Contains(b.String(), "the sums") {
		t.Error(b.String())
	}
}

// A change that rounds to nothing has no minus.
func TestChangeOfNothing(t *testing.T) {
	f := compared{"Time", func(l *Line) string { return report.Clock(l.ElapsedSecs) }, func(l *Line) rt.Opt[float64] { return l.ElapsedSecs }}
	if got := f.change(&Line{ElapsedSecs: rt.Some(1001.0)}, &Line{ElapsedSecs: rt.Some(1000.0)}); got != "+0 %" {
		t.Errorf("the change is %q", got)
	}
}
