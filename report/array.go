package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Array is what the tasks of a job array used, each in its last attempt. Tasks with an
// incomplete record are counted in Outcomes only.
type Array struct {
	Job string `json:"array_job"`
	Names

	Tasks    []ArrayTask    `json:"tasks"`
	TaskIDs  string         `json:"task_ids"` // of the tasks that are here, as Slurm writes them: "0-3,7"
	Outcomes map[string]int `json:"outcomes"`
	Complete int            `json:"complete"` // tasks in the distributions
	Earlier  int            `json:"earlier_attempts"`
	Elapsed  Distribution   `json:"elapsed_secs"`
	Used     Distribution   `json:"cpu_used_secs"`
	UsedPct  Distribution   `json:"cpu_used_pct"`
	Peak     Distribution   `json:"memory_peak_bytes"` // of the worst node of each task
	PeakPct  Distribution   `json:"memory_peak_pct"`   // of its limit
	Outliers []Outlier      `json:"outliers"`
	OOMKills rt.Opt[uint64] `json:"oom_kills"`
	// Advice is what to request for each task of the next array. All tasks are its sample.
	Advice       []Advice `json:"advice,omitempty"`
	AdviceReason string   `json:"advice_reason,omitempty"`
}

// ArrayTask is one task of an array, all of its nodes together.
type ArrayTask struct {
	Job         string          `json:"job"` // "1200_3"
	Nodes       []string        `json:"nodes"`
	Outcome     rt.Outcome      `json:"outcome"`
	ElapsedSecs rt.Opt[float64] `json:"elapsed_secs"`
	Used
	UsedPct rt.Opt[float64] `json:"used_pct"`
	PeakMemory
	PeakPct  rt.Opt[float64] `json:"peak_pct"`
	OOMKills rt.Opt[uint64]  `json:"oom_kills"`
	Complete bool            `json:"complete"`
}

// Distribution describes a figure over all tasks. Its values are null if no task has the figure.
type Distribution struct {
	N    int             `json:"n"`
	Mark Mark            `json:"mark,omitempty"` // of values among them
	Min  rt.Opt[float64] `json:"min"`
	P10  rt.Opt[float64] `json:"p10"`
	P50  rt.Opt[float64] `json:"p50"`
	P90  rt.Opt[float64] `json:"p90"`
	Max  rt.Opt[float64] `json:"max"`
	Mean rt.Opt[float64] `json:"mean"`
}

// Outlier is a task with a figure that is far from the other tasks' figures.
type Outlier struct {
	Job    string  `json:"job"`
	Node   string  `json:"node"`
	What   string  `json:"what"` // the JSON name of the distribution
	Value  float64 `json:"value"`
	Median float64 `json:"median"`
}

// RollUp summarizes the runs of an array's tasks, the oldest first.
func RollUp(job string, list []*Summary) *Array {
	a := &Array{Job: job, Tasks: []ArrayTask{}, Outcomes: map[string]int{}, Outliers: []Outlier{}}
	if len(list) > 0 {
		r := &list[len(list)-1].Run
		a.Names = Names{r.Meta.JobName, r.Cluster, r.User, r.Account, r.Partition}
	}
	jobs := Jobs(list)
	for _, j := range jobs {
		a.Earlier += len(j.Earlier)
		a.Tasks = append(a.Tasks, arrayTask(j))
	}
	slices.SortStableFunc(a.Tasks, func(x, y ArrayTask) int {
		return cmp.Or(cmp.Compare(len(x.Job), len(y.Job)), cmp.Compare(x.Job, y.Job))
	})
	a.TaskIDs = taskIDs(list)
	a.spread()
	a.advise(jobs)
	return a
}

// taskIDs returns the ids of the tasks as ranges.
func taskIDs(list []*Summary) string {
	var ids []uint64
	for _, s := range list {
		if id, ok := s.Run.ArrayTaskID.Get(); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var ranges []string
	for i := 0; i < len(ids); i++ {
		first := ids[i]
		for i+1 < len(ids) && ids[i+1] == ids[i]+1 {
			i++
		}
		ranges = append(ranges, fmt.Sprint(first)+onlyIf(ids[i] > first, fmt.Sprintf("-%d", ids[i])))
	}
	return strings.Join(ranges, ",")
}

// advise takes the last task that shows what a complete task needs. All other tasks are its sample.
// Without one it takes the last task that was killed for memory or stopped at its time limit.
func (a *Array) advise(tasks []*JobSummary) {
	best := -1
	for i, j := range slices.Backward(tasks) {
		if j.whyNone() == "" {
			best = i
			break
		}
		isStopped := j.killedOn() != nil || j.Outcome == rt.OutcomeTimeout
		if isStopped && best < 0 {
			best = i
		}
	}
	if best < 0 {
		a.AdviceReason = whyNoTask(tasks)
		return
	}
	j := tasks[best]
	j.advise(slices.Concat(tasks[:best], tasks[best+1:]), true)
	a.Advice, a.AdviceReason = j.Advice, j.AdviceReason
}

// whyNoTask is the reason of the tasks if they all have the same one.
func whyNoTask(tasks []*JobSummary) string {
	why := ""
	for i, j := range tasks {
		if i > 0 && j.whyNone() != why {
			return "no task finished with a complete record and ran long enough"
		}
		why = j.whyNone()
	}
	return strings.Replace(why, "the job was too short", "the tasks were too short", 1)
}

func arrayTask(j *JobSummary) ArrayTask {
	n := j.Nodes
	t := ArrayTask{
		Job: j.Label, Outcome: j.Outcome, ElapsedSecs: j.ElapsedSecs, Used: n.Used, UsedPct: n.UsedPct,
		PeakMemory: n.Nodes[0].PeakMemory, PeakPct: n.Nodes[0].PeakPct, OOMKills: n.OOMKills, Complete: n.Complete,
	}
	for _, share := range n.Nodes { // the worst first
		t.Nodes = append(t.Nodes, share.Node)
	}
	if len(n.Nodes) == 1 { // the others may be in other spools
		t.UsedPct, t.Complete = n.Nodes[0].UsedPct, n.Nodes[0].Complete
	}
	return t
}

func (a *Array) spread() {
	for _, t := range a.Tasks {
		a.Outcomes[cmp.Or(string(t.Outcome), "running")]++
		if t.Complete {
			a.Complete++
		}
	}
	a.OOMKills = whole(sumOf(a.Tasks, func(t ArrayTask) rt.Opt[float64] { return rt.Scaled(t.OOMKills, 1) }))
	for _, f := range []struct {
		to   *Distribution
		what string
		of   func(*ArrayTask) (rt.Opt[float64], Mark)
	}{
		{&a.Elapsed, "elapsed_secs", func(t *ArrayTask) (rt.Opt[float64], Mark) { return t.ElapsedSecs, Exact }},
		{&a.Used, "cpu_used_secs", func(t *ArrayTask) (rt.Opt[float64], Mark) { return t.UsedSecs, t.UsedMark }},
		{&a.UsedPct, "cpu_used_pct", func(t *ArrayTask) (rt.Opt[float64], Mark) { return t.UsedPct, t.UsedMark }},
		{&a.Peak, "memory_peak_bytes", func(t *ArrayTask) (rt.Opt[float64], Mark) { return rt.Scaled(t.PeakBytes, 1), t.PeakMark }},
		{&a.PeakPct, "memory_peak_pct", func(t *ArrayTask) (rt.Opt[float64], Mark) { return t.PeakPct, t.PeakMark }},
	} {
		var values []float64
		var tasks []*ArrayTask
		mark := Exact
		for i := range a.Tasks {
			figure, of := f.of(&a.Tasks[i])
			if v, ok := figure.Get(); ok && a.Tasks[i].Complete {
				values, tasks, mark = append(values, v), append(tasks, &a.Tasks[i]), mark.and(of)
			}
		}
		*f.to = distribution(values)
		f.to.Mark = mark
		if f.what != "cpu_used_pct" && f.what != "memory_peak_pct" { // these follow from the others
			a.outliers(f.what, values, tasks)
		}
	}
}

func distribution(values []float64) Distribution {
	d := Distribution{N: len(values)}
	if d.N == 0 {
		return d
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	d.Min, d.Max, d.Mean = rt.Some(sorted[0]), rt.Some(sorted[d.N-1]), rt.Some(sum/float64(d.N))
	d.P10, d.P50, d.P90 = rt.Some(quantile(sorted, 0.1)), rt.Some(quantile(sorted, 0.5)), rt.Some(quantile(sorted, 0.9))
	return d
}

// quantile returns a quantile of sorted values, with linear interpolation.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[low]
	}
	part := at - float64(low)
	return sorted[low] + float64(part*(sorted[low+1]-sorted[low]))
}

// There are outliers only among at least outlierTasks tasks. An outlier differs from the median by
// more than outlierDeviations deviations, and by more than outlierPart of the median. A deviation
// is the median of the distances to the median, scaled to a normal distribution.
const (
	outlierTasks      = 8
	outlierDeviations = 3.5
	outlierPart       = 0.2
)

func (a *Array) outliers(what string, values []float64, tasks []*ArrayTask) {
	if len(values) < outlierTasks {
		return
	}
	median := quantile(slices.Sorted(slices.Values(values)), 0.5)
	distances := make([]float64, len(values))
	for i, v := range values {
		distances[i] = math.Abs(v - median)
	}
	deviation := 1.4826 * quantile(slices.Sorted(slices.Values(distances)), 0.5)
	for i, v := range values {
		if distances[i] > outlierDeviations*deviation && distances[i] > outlierPart*median {
			a.Outliers = append(a.Outliers, Outlier{Job: tasks[i].Job, Node: tasks[i].Nodes[0], What: what, Value: v, Median: median})
		}
	}
}

// shown formats the figure of an outlier.
func (o *Outlier) shown() string {
	name, show := "elapsed", Clock
	switch o.What {
	case "cpu_used_secs":
		name, show = "CPU", Clock
	case "memory_peak_bytes":
		name, show = "memory", bytes
	}
	return fmt.Sprintf("%s %s, median %s", name, show(rt.Some(o.Value)), show(rt.Some(o.Median)))
}
