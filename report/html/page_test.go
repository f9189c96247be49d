package html

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// The page of a job of 24 hours has at most 1 MiB, also with eight GPUs. The page of 64 nodes has at most 6 MiB.
func TestSize(t *testing.T) {
	gpus := dayOf("n1")
	gpus.gpus = 8
	for _, c := range []struct {
		name string
		runs []PageRun
		most int
	}{
		{"24 h", []PageRun{dayOf("n1").asRun(t)}, 1 << 20},
		{"24 h with 8 GPUs", []PageRun{gpus.asRun(t)}, 1 << 20},
		{"64 nodes", manyNodes(t, 64), 6 << 20},
	} {
		page := pageOf(t, c.runs...)
		t.Logf("%s: %d KiB", c.name, len(page)>>10)
		if len(page) > c.most {
			t.Errorf("%s: the page has %d bytes, more than %d", c.name, len(page), c.most)
		}
	}
}

// The table of runs marks figures that are lower bounds, as the report does.
func TestAtLeast(t *testing.T) {
	run := simulated{node: "n1", readings: 5, every: time.Second}.asRun(t)
	figures := func() []string {
		row := tablesOf(&Page{Runs: []PageRun{run}})[0].Rows[0]
		return []string{row[3], row[9], row[10]}
	}
	run.Summary.CPU.UsedMark, run.Summary.IO.Mark = report.Exact, report.Exact
	exact := figures()
	run.Summary.CPU.UsedMark, run.Summary.IO.Mark = report.AtLeast, report.AtLeast
	for i, figure := range figures() {
		want := "at least " + exact[i]
		if exact[i] == "-" {
			want = "-"
		}
		if figure != want {
			t.Errorf("the table has %q, want %q", figure, want)
		}
	}
	if exact[0] == "-" {
		t.Error("the example has no CPU time")
	}
}

// unpack is the decoder of pack; page.js has the same.
func unpack(t *testing.T, text string) []int64 {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	var out []int64
	last := int64(0)
	for len(raw) > 0 {
		v, n := binary.Uvarint(raw)
		if n <= 0 {
			t.Fatalf("a varint ends early: % x", raw)
		}
		raw = raw[n:]
		if v == 0 {
			out = append(out, absent)
			continue
		}
		z := v - 1
		last += int64(z>>1) ^ -int64(z&1)
		out = append(out, last)
	}
	return out
}

func TestPack(t *testing.T) {
	for _, values := range [][]int64{{}, {0}, {absent}, {1, absent, -1, 1 << 52, -(1 << 52), absent, absent, 0}} {
		if got := unpack(t, pack(values)); !slices.Equal(got, values) {
			t.Errorf("pack(%v) is unpacked as %v", values, got)
		}
	}
}

// A value that was not read is absent, and so are the readings that were not taken.
func TestAbsent(t *testing.T) {
	o := simulated{node: "n1", readings: 60, every: 10 * time.Second, unread: [2]int{10, 15}, missed: [2]int{30, 40}}
	s := o.asRun(t).Series
	if len(s.times) != 51 || s.readings != 50 {
		t.Fatalf("%d points of %d readings: want 51 of 50, with one for the gap", len(s.times), s.readings)
	}
	total := lineNamed(t, s, memoryFigure, "total")
	cores := lineNamed(t, s, cpuFigure, "in use")
	for i, v := range total.values {
		isUnread := 10 <= i && i < 15
		if want := isUnread || i == 30; (v == absent) != want {
			t.Errorf("memory at point %d is %d: want absent %v", i, v, want)
		}
	}
	if cores.values[0] != absent || cores.values[1] == absent || cores.values[30] != absent {
		t.Errorf("cores begin with %v and are %d in the gap: want absent, a value, absent", cores.values[:2], cores.values[30])
	}
	if slices.Contains(total.values, 0) {
		t.Error("a value that was not read is 0")
	}
}

func lineNamed(t *testing.T, s *Series, figure, name string) *line {
	t.Helper()
	i := slices.IndexFunc(s.lines, func(l *line) bool { return l.figure == figure && l.name == name })
	if i < 0 {
		t.Fatalf("there is no line %s in %s", name, figure)
	}
	return s.lines[i]
}

// Thinning keeps the highest and the lowest value of each line, and the absent values.
func TestThin(t *testing.T) {
	s := dayOf("n1").asRun(t).Series
	thin := s.thin(500)
	if n := len(thin.times); n > 500 || n < 400 {
		t.Fatalf("%d points: want at most 500", n)
	}
	if !slices.IsSorted(thin.times) {
		t.Error("the times do not ascend")
	}
	read := func(l *line) []int64 {
		return slices.DeleteFunc(slices.Clone(l.values), func(v int64) bool { return v == absent })
	}
	for i, l := range s.lines {
		m := thin.lines[i]
		if len(m.values) != len(thin.times) {
			t.Fatalf("%s has %d values at %d points", m.name, len(m.values), len(thin.times))
		}
		if slices.Max(read(l)) != slices.Max(read(m)) || slices.Min(read(l)) != slices.Min(read(m)) {
			t.Errorf("%s, %s: the highest or the lowest value is lost", l.figure, l.name)
		}
	}
	if !slices.Contains(lineNamed(t, thin, memoryFigure, "total").values, absent) {
		t.Error("the gap is lost")
	}
	page := string(pageOf(t, manyNodes(t, 64)...))
	if strings.Contains(page, `"perPoint":0,`) || !strings.Contains(page, `"perPoint":`) {
		t.Error("the page does not say how many readings are in a point")
	}
}

// A text that a user can choose never becomes markup, and the page loads nothing.
func TestEscaped(t *testing.T) {
	const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'` + "\x1b[31m"
	o := simulated{node: hostile, readings: 5, every: time.Second, name: hostile}
	r := o.asRun(t)
	r.Text = printable.Text(hostile)
	r.Summary.Run.Command = []string{hostile}
	r.Summary.Steps[0].Step = hostile
	r.Series.lanes[0].Name = hostile
	var out bytes.Buffer
	jobs := report.Jobs([]*report.Summary{r.Summary})
	jobs[0].Advice = []report.Advice{{Resource: "memory", Text: hostile}}
	if err := Write(&out, &Page{Name: hostile, Zone: time.UTC, Runs: []PageRun{r}, Jobs: jobs}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, bad := range []string{"<script>alert", "<img", "\x1b"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("the page has %d script elements: want the data and the program", n)
	}
	// uPlot's licence comment names its address; no attribute and no style does.
	for _, load := range []string{`(src|href|action|srcset)\s*=\s*["']?(https?:)?//`, `url\(`, `@import`, `<link`, `<iframe`} {
		if at := regexp.MustCompile(load).FindString(page); at != "" {
			t.Errorf("the page loads %q", at)
		}
	}
	if !strings.Contains(page, `default-src &#39;none&#39;; style-src &#39;sha256-`) {
		t.Error("the page has no policy that forbids to load anything")
	}
}

// The data of the page is a separate JSON document.
func TestData(t *testing.T) {
	o := simulated{node: "n1", readings: 50, every: 10 * time.Second, killAt: 40}
	page := pageOf(t, o.asRun(t))
	raw := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(page)
	if raw == nil {
		t.Fatal("the page has no data")
	}
	var d pageData
	if err := json.Unmarshal(raw[1], &d); err != nil {
		t.Fatal(err)
	}
	r := d.Runs[0]
	if len(r.Marks) != 1 || r.Marks[0].At != float64(start.Add(400*time.Second).Unix()) {
		t.Errorf("the marks are %+v: want the kill after 400 s", r.Marks)
	}
	if len(r.Levels) != 3 || r.Levels[1].Value != 32<<30 {
		t.Errorf("the levels are %+v: want the allocated cores, the limit of 32 GiB and the peak", r.Levels)
	}
	if len(r.Lanes) != 1+4*3 {
		t.Errorf("there are %d lanes: want 13", len(r.Lanes))
	}
	for _, want := range []string{"Processes killed for memory", "Steps and tasks", "MIT License"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// The names of the runs are as short as they can be.
func TestRunNames(t *testing.T) {
	nodes := &Page{Runs: []PageRun{{Summary: simulated{node: "n1", readings: 2, every: time.Second}.asRun(t).Summary}, {Summary: simulated{node: "n2", readings: 2, every: time.Second}.asRun(t).Summary}}}
	if got := strings.Join(runNames(nodes), "; "); got != "n1; n2" {
		t.Errorf("nodes: %s", got)
	}
	nodes.Runs[1].Summary.Run.Attempt = 1
	if got := strings.Join(runNames(nodes), "; "); got != "n1, attempt 0; n2, attempt 1" {
		t.Errorf("attempts: %s", got)
	}
	nodes.Runs[1].Summary.Run.Attempt = 0
	for i := range nodes.Runs {
		r := &nodes.Runs[i].Summary.Run
		r.ArrayJobID, r.ArrayTaskID = rt.Some[uint64](40), rt.Some(uint64(i))
		nodes.Runs[i].Summary.Label = r.Label()
	}
	if got := strings.Join(runNames(nodes), "; "); got != "40_0 on n1; 40_1 on n2" {
		t.Errorf("array: %s", got)
	}
	for i := range nodes.Runs {
		r := &nodes.Runs[i].Summary.Run
		r.ArrayTaskID.Clear()
		r.JobID, r.HetJobID, r.HetJobOffset = rt.Some(40+uint64(i)), rt.Some[uint64](40), rt.Some(uint64(i))
		nodes.Runs[i].Summary.Label = r.Label()
	}
	if got := strings.Join(runNames(nodes), "; "); got != "40+0 on n1; 40+1 on n2" {
		t.Errorf("heterogeneous job: %s", got)
	}
}

// An earlier attempt was requeued, which Slurm does as it cancels a job.
func TestOutcomeOfAnEarlierAttempt(t *testing.T) {
	job := &Page{Runs: []PageRun{{Summary: simulated{node: "n1", readings: 2, every: time.Second}.asRun(t).Summary}, {Summary: simulated{node: "n1", readings: 2, every: time.Second}.asRun(t).Summary}}}
	first, last := job.Runs[0].Summary, job.Runs[1].Summary
	for i, s := range []*report.Summary{first, last} {
		s.Run.Attempt, s.Run.State, s.Run.Outcome = uint64(i), rt.StateEnded, rt.OutcomeCancelled
	}
	if a, b := job.outcomeOf(first), job.outcomeOf(last); a != "requeued" || b != "cancelled" {
		t.Errorf("attempts: %q, %q", a, b)
	}
	if first.Run.Outcome = rt.OutcomeFailed; job.outcomeOf(first) != "failed, then requeued" {
		t.Errorf("a failed attempt: %q", job.outcomeOf(first))
	}
}

// The same advice for several jobs is one line, and a job without advice has the reason.
func TestAdvice(t *testing.T) {
	memory := report.Advice{Resource: "memory", Verdict: report.Less, Request: "--mem=1G (or --mem-per-cpu=1G)", Text: "why"}
	cores := report.Advice{Resource: "cores", Verdict: report.WellSized, Text: "all"}
	jobs := []*report.JobSummary{{Label: "1", Advice: []report.Advice{memory}}, {Label: "2", Advice: []report.Advice{memory, cores}}}
	if got := fmt.Sprint(adviceOf(jobs)); got != "[{ --mem=1G  (or --mem-per-cpu=1G): why} {2:   cores well sized: all}]" {
		t.Errorf("the advice is %q", got)
	}
	jobs = []*report.JobSummary{{Label: "1", AdviceReason: "2 of 8 nodes are missing"}}
	if got := fmt.Sprint(adviceOf(jobs)); got != "[{  no advice: 2 of 8 nodes are missing}]" {
		t.Errorf("without two nodes the advice is %q", got)
	}
}

// The title names what was tracked, as the text does: an array's tasks, the job id behind a task, a command without
// arguments.
func TestTitle(t *testing.T) {
	var runs []PageRun
	for _, task := range []uint64{7, 0, 1, 2, 2} { // 2 was requeued
		run := simulated{node: "n1", readings: 2, every: time.Second, name: "md"}.asRun(t)
		r := &run.Summary.Run
		r.JobID, r.ArrayJobID, r.ArrayTaskID = rt.Some(50+task), rt.Some[uint64](40), rt.Some(task)
		run.Summary.Label = r.Label()
		runs = append(runs, run)
	}
	runs[4].Summary.Run.Attempt = 1
	of := func(name string, isArray bool, runs ...PageRun) string {
		var list []*report.Summary
		for i := range runs {
			list = append(list, runs[i].Summary)
		}
		job := &Page{Name: name, Runs: runs, Jobs: report.Jobs(list)}
		if isArray {
			job.Array = report.RollUp(name, list)
		}
		return title(job, job.Jobs)
	}
	if got := of("40", true, runs...); got != "Array 40_[0-2,7] md" {
		t.Errorf("the title of an array is %q", got)
	}
	if got := shortIDs(strings.Repeat("1,", 40)); got != strings.Repeat("1,", 30)+"..." {
		t.Errorf("many task ids are %q", got)
	}
	if got := of("57", false, runs[0]); got != "Job 40_7 (job id 57) md" {
		t.Errorf("the title of a task is %q", got)
	}
	r := &runs[0].Summary.Run
	r.JobID, r.ArrayJobID, r.ArrayTaskID = rt.None[uint64](), rt.None[uint64](), rt.None[uint64]()
	r.Meta.JobName, r.Command, runs[0].Summary.Label = "", []string{"/usr/bin/make", "all"}, "-"
	if got := of("-", false, runs[0]); got != "Command make" {
		t.Errorf("the title of a command is %q", got)
	}
	r.Command = nil
	if got := of("-", false, runs[0]); got != "Node n1" {
		t.Errorf("the title of a recording of a node is %q", got)
	}
}

// An array has the advice of all tasks, the number of each outcome, and the range of the starts.
func TestArray(t *testing.T) {
	var list []*report.Summary
	job := &Page{Name: "40", Zone: time.UTC}
	for task := range uint64(3) {
		run := simulated{node: "n1", readings: 20, every: time.Second}.asRun(t)
		r := &run.Summary.Run
		r.JobID, r.ArrayJobID, r.ArrayTaskID, r.JobStart = rt.Some(50+task), rt.Some[uint64](40), rt.Some(task), start.Add(time.Duration(task)*time.Minute)
		run.Summary.Label = r.Label()
		job.Runs, list = append(job.Runs, run), append(list, run.Summary)
	}
	list[1].Run.Outcome = rt.OutcomeOOM
	job.Jobs, job.Array = report.Jobs(list), report.RollUp("40", list)
	job.Array.Advice = []report.Advice{{Resource: "memory", Request: "--mem=1G", Text: "of all tasks"}}
	job.Jobs[0].Advice = []report.Advice{{Resource: "memory", Request: "--mem=2G", Text: "of one task"}}
	var out bytes.Buffer
	if err := Write(&out, job); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<li><code>--mem=1G</code>: of all tasks</li>", "<dd>2 finished; 1 oom (killed for memory)</dd>", "<dd>2026-03-01 12:00:00 UTC to 2026-03-01 12:02:00 UTC</dd>", "<dd>20.00 s</dd>", "<dd>task ids 0-2 are here; others can be "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "of one task") {
		t.Error("the page has the advice of a task")
	}
}

// The page has the start and the elapsed time as the text has them, also of a running job.
func TestWhen(t *testing.T) {
	for _, state := range []rt.State{rt.StateEnded, rt.StateRunning} {
		run := simulated{node: "n1", readings: 20, every: time.Second}.asRun(t)
		r := &run.Summary.Run
		r.State, r.JobStart = state, start.Add(-900*time.Millisecond) // before the first reading, in another second
		jobs := report.Jobs([]*report.Summary{run.Summary})
		job := &Page{Name: "4711", Zone: time.UTC, Runs: []PageRun{run}, Jobs: jobs}
		facts := map[string]string{}
		for _, f := range factsOf(job, jobs) {
			facts[f.Name] = f.Value
		}
		var text strings.Builder
		if err := report.WriteText(&text, jobs[0], report.TextOptions{Zone: time.UTC, Width: 100}); err != nil {
			t.Fatal(err)
		}
		if want := "When         " + facts["Started"] + ", elapsed " + facts["Elapsed"] + "\n"; !strings.Contains(text.String(), want) {
			t.Errorf("%s: the page has %q, the text\n%s", state, want, text.String())
		}
	}
}
