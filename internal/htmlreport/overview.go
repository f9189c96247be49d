package htmlreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

const timeLayout = "2006-01-02 15:04:05"

func factsOf(job *Job, jobs []*report.Job) []fact {
	r := &job.Runs[0].Summary.Run
	start, end := span(job)
	list := []fact{
		{"Outcome", outcomes(jobs)},
		{"User", r.User},
		{"Account", r.Account},
		{"Partition", r.Partition},
		{"QOS", r.QOS},
		{"Command", strings.Join(r.Command, " ")},
		{"Nodes", nodesOf(jobs)},
		{"Elapsed", elapsedOf(jobs)},
		{"Recorded from", moment(start, job.Zone)},
		{"Recorded until", moment(end, job.Zone)},
	}
	list = slices.DeleteFunc(list, func(f fact) bool { return f.Value == "" })
	for i := range list {
		list[i].Value = rt.Printable(list[i].Value)
	}
	return list
}

func moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return t.In(zone).Format(timeLayout)
}

// span returns the times of the first and the last reading of all runs.
func span(job *Job) (start, end time.Time) {
	for i := range job.Runs {
		rec := &job.Runs[i].Summary.Record
		isEarlier := start.IsZero() || rec.First.Before(start)
		if isEarlier && !rec.First.IsZero() {
			start = rec.First
		}
		if rec.Last.After(end) {
			end = rec.Last
		}
	}
	return start, end
}

// outcomes lists the different outcomes of the jobs: one, unless they are tasks of an array.
func outcomes(jobs []*report.Job) string {
	var list []string
	for _, j := range jobs {
		if o := j.OutcomeText(); !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return strings.Join(list, ", ")
}

func outcome(e *rt.Ending, isAbandoned bool) string {
	switch {
	case isAbandoned && e.State == rt.StateRunning:
		return "the tracker died"
	case e.State == rt.StateRunning:
		return "running"
	case e.Outcome == rt.OutcomeTerminated:
		return "cancelled or timed out"
	}
	return string(cmp.Or(e.Outcome, rt.OutcomeUnknown))
}

// nodesOf returns the nodes of the runs, and the nodes of the job without a run on the page.
func nodesOf(jobs []*report.Job) string {
	const few = 8
	var names, missing []string
	lacking := uint64(0)
	for _, j := range jobs {
		for _, s := range j.Runs {
			if !slices.Contains(names, s.Run.Node) {
				names = append(names, s.Run.Node)
			}
		}
		missing, lacking = append(missing, j.MissingNodes...), lacking+j.Missing
	}
	text := firstOf(names, few)
	switch {
	case len(missing) > 0:
		text += "; not here: " + firstOf(missing, few)
	case lacking > 0:
		text += fmt.Sprintf("; not here: %d more", lacking)
	}
	return text
}

// elapsedOf returns the elapsed time of the only job, or of the shortest and the longest one.
func elapsedOf(jobs []*report.Job) string {
	var all []float64
	for _, j := range jobs {
		if secs, ok := j.ElapsedSecs.Get(); ok {
			all = append(all, secs)
		}
	}
	if len(all) == 0 {
		return ""
	}
	low, high := slices.Min(all), slices.Max(all)
	if len(jobs) == 1 {
		return duration(high)
	}
	return duration(low) + " to " + duration(high)
}

func firstOf(names []string, n int) string {
	text := strings.Join(names[:min(n, len(names))], ", ")
	if more := len(names) - n; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// barsOf returns the parts of the allocation that the last attempts of all jobs together used.
func barsOf(jobs []*report.Job) []bar {
	var used, allocated, busy, gpus float64
	var memory *report.Summary
	var slowest *report.Job
	nodes, isBound := 0, false
	for _, j := range jobs {
		nodes += len(j.Runs)
		if secs, of := j.Nodes.UsedSecs, j.Nodes.AllocatedSecs; secs.Valid() && of.Valid() {
			used, allocated, isBound = used+secs.Or(0), allocated+of.Or(0), isBound || j.Nodes.AtLeast
		}
		for _, s := range j.Runs {
			isFuller := memory == nil || s.Memory.PeakPct.Or(0) > memory.Memory.PeakPct.Or(0)
			if s.Memory.PeakPct.Valid() && isFuller {
				memory = s
			}
		}
		if pct, ok := j.GPUs.BusyPct.Get(); ok {
			n := float64(j.GPUs.Count)
			busy, gpus = busy+pct*n, gpus+n
		}
		isSlower := slowest == nil || j.TimePct.Or(0) > slowest.TimePct.Or(0)
		if j.TimePct.Valid() && isSlower {
			slowest = j
		}
	}
	var bars []bar
	if allocated > 0 {
		bars = append(bars, bar{"CPU", used / allocated * 100, fmt.Sprintf("%s of %s of CPU time", atLeast(isBound, duration(used)), duration(allocated))})
	}
	if memory != nil {
		m, where := &memory.Memory, ""
		if nodes > 1 {
			where = " on " + rt.Printable(memory.Run.Node)
		}
		bars = append(bars, bar{"Memory", m.PeakPct.Or(0), fmt.Sprintf("%s of %s%s", size(m.PeakBytes), size(m.LimitBytes), where)})
	}
	if gpus > 0 {
		bars = append(bars, bar{"GPU", busy / gpus, fmt.Sprintf("busy, mean of %.0f", gpus)})
	}
	if slowest != nil {
		bars = append(bars, bar{"Time", slowest.TimePct.Or(0), fmt.Sprintf("%s of the limit of %s", seconds(slowest.ElapsedSecs), seconds(slowest.LimitSecs))})
	}
	return bars
}

// adviceOf returns the advice of the jobs, or why there is none. It lists each text once, with the
// labels of its jobs.
func adviceOf(jobs []*report.Job) []string {
	var texts []string
	of := map[string][]string{} // labels of jobs by text
	add := func(label, text string) {
		if of[text] == nil {
			texts = append(texts, text)
		}
		of[text] = append(of[text], label)
	}
	for _, j := range jobs {
		for i := range j.Advice {
			add(j.Label, j.Advice[i].String())
		}
		if len(j.Advice) == 0 && j.AdviceReason != "" {
			add(j.Label, "no advice: "+j.AdviceReason)
		}
	}
	for i, text := range texts {
		if isForAll := len(of[text]) == len(jobs); !isForAll {
			text = firstOf(of[text], 4) + ": " + text
		}
		texts[i] = rt.Printable(text)
	}
	return texts
}
