package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

const timeLayout = "2006-01-02 15:04:05"

func factsOf(p *Page, jobs []*report.JobSummary) []fact {
	r := &p.Runs[0].Summary.Run
	started, elapsed := when(p, jobs)
	list := []fact{
		{Name: "Outcome", Value: outcomes(jobs), Level: levelOf(p, jobs)},
		{Name: "User", Value: r.User},
		{Name: "Account", Value: r.Account},
		{Name: "Partition", Value: r.Partition},
		{Name: "QOS", Value: r.QOS},
		{Name: "Command", Value: strings.Join(r.Command, " ")},
		{Name: "Nodes", Value: nodesOf(jobs)},
		{Name: "Started", Value: started},
		{Name: "Elapsed", Value: elapsed},
	}
	if len(jobs) == 1 {
		list[7].At = jobs[0].Start
	}
	if a := p.Array; a != nil {
		list = append(list, fact{Name: "Tasks", Value: a.TasksText()})
	}
	list = slices.DeleteFunc(list, func(f fact) bool { return f.Value == "" })
	for i := range list {
		list[i].Value = printable.Text(list[i].Value)
	}
	return list
}

// levelOf is the level of the worst outcome.
func levelOf(p *Page, jobs []*report.JobSummary) string {
	worst := p.Colors.OfOutcome(jobs[0].Outcome)
	for _, j := range jobs {
		if level := p.Colors.OfOutcome(j.Outcome); level == report.Harmful {
			worst = level
		}
	}
	return worst.Name()
}

func moment(t time.Time, zone *time.Location) string {
	if t.IsZero() {
		return ""
	}
	return t.In(zone).Format(timeLayout)
}

// when returns the start and the elapsed time of the only job as the text has them. Of several jobs
// it returns the first and the last start, and the shortest and the longest time.
func when(p *Page, jobs []*report.JobSummary) (started, elapsed string) {
	if len(jobs) == 1 {
		return jobs[0].StartText(p.Zone), jobs[0].ElapsedText(p.Zone, time.Time{})
	}
	first := slices.MinFunc(jobs, func(a, b *report.JobSummary) int { return a.Start.Compare(b.Start) }).StartText(p.Zone)
	last := slices.MaxFunc(jobs, func(a, b *report.JobSummary) int { return a.Start.Compare(b.Start) }).StartText(p.Zone)
	return upTo(first, last), elapsedOf(jobs)
}

// upTo joins the ends of a range, which can be the same.
func upTo(low, high string) string {
	if low == high {
		return low
	}
	return low + " to " + high
}

// outcomes lists the outcomes of the jobs, with the number of jobs if there are several:
// "4 finished, 1 failed, exit code 2".
func outcomes(jobs []*report.JobSummary) string {
	if len(jobs) == 1 {
		return jobs[0].OutcomeText()
	}
	var texts []string
	of := map[string]int{}
	for _, j := range jobs {
		o := j.OutcomeText()
		if of[o] == 0 {
			texts = append(texts, o)
		}
		of[o]++
	}
	for i, o := range texts {
		texts[i] = fmt.Sprintf("%d %s", of[o], o)
	}
	return strings.Join(texts, "; ")
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
func nodesOf(jobs []*report.JobSummary) string {
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
	text := report.FirstOf(names, few)
	switch {
	case len(missing) > 0:
		text += "; not here: " + report.FirstOf(missing, few)
	case lacking > 0:
		text += fmt.Sprintf("; not here: %d more", lacking)
	}
	return text
}

// elapsedOf returns the elapsed times of the shortest and the longest job.
func elapsedOf(jobs []*report.JobSummary) string {
	var all []float64
	for _, j := range jobs {
		if secs, ok := j.ElapsedSecs.Get(); ok {
			all = append(all, secs)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return upTo(duration(slices.Min(all)), duration(slices.Max(all)))
}

// nodeShare marks a bar of a command, which has the cores and the memory of its node.
const nodeShare = " (node)"

// barsOf returns the parts of the allocation that the last attempts of all jobs together used.
func barsOf(jobs []*report.JobSummary, c *report.Colors) []bar {
	var used, allocated, busy, gpus float64
	var memory *report.Summary
	var slowest *report.JobSummary
	nodes, mark, ofNode := 0, report.Exact, ""
	for _, j := range jobs {
		if j.Runs[0].Scope == report.ScopeNode {
			continue
		}
		nodes += len(j.Runs)
		if secs, of := j.Nodes.UsedSecs, j.Nodes.AllocatedSecs; secs.Valid() && of.Valid() {
			used, allocated, mark = used+secs.Or(0), allocated+of.Or(0), cmp.Or(mark, j.Nodes.UsedMark)
			if j.Nodes.CoresOf == "node" {
				ofNode = nodeShare
			}
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
	add := func(name string, pct float64, level func(rt.Opt[float64]) report.Level, format string, args ...any) {
		bars = append(bars, bar{name, pct, fmt.Sprintf(format, args...), level(rt.Some(pct)).Name()})
	}
	if allocated > 0 {
		add("CPU", used/allocated*100, c.OfUse, "%s of %s of CPU time%s", mark.Of(duration(used)), duration(allocated), ofNode)
	}
	if memory != nil {
		m, where := &memory.Memory, ""
		if nodes > 1 {
			where = " on " + printable.Text(memory.Run.Node)
		}
		if m.LimitOf == "node" {
			where += nodeShare
		}
		add("Memory", m.PeakPct.Or(0), c.OfMemory, "%s of %s%s", m.PeakMemory.Text(), report.Size(m.LimitBytes), where)
	}
	if gpus > 0 {
		add("GPU", busy/gpus, c.OfUse, "busy, mean of %.0f", gpus)
	}
	if slowest != nil {
		add("Time", slowest.TimePct.Or(0), c.OfTime, "%s of the limit of %s", report.Clock(slowest.ElapsedSecs), report.Clock(slowest.LimitSecs))
	}
	return bars
}

// adviceOf returns the advice of the jobs, or why there is none. It lists each text once, with the
// labels of its jobs.
func adviceOf(jobs []*report.JobSummary) []advice {
	var list []advice
	of := map[advice][]string{} // labels of jobs
	add := func(label string, a advice) {
		if of[a] == nil {
			list = append(list, a)
		}
		of[a] = append(of[a], label)
	}
	for _, j := range jobs {
		for i := range j.Advice {
			a := &j.Advice[i]
			request, _, _ := strings.Cut(a.Request, " (")
			add(j.Label, advice{Request: printable.Text(request), Text: printable.Text(strings.TrimPrefix(a.String(), request))})
		}
		if len(j.Advice) == 0 && j.AdviceReason != "" {
			add(j.Label, advice{Text: printable.Text("no advice: " + j.AdviceReason)})
		}
	}
	for i, a := range list {
		if isForAll := len(of[a]) == len(jobs); !isForAll {
			list[i].Of = printable.Text(report.FirstOf(of[a], 4) + ": ")
		}
	}
	return list
}

// advice is an advice: for which jobs, the option to copy, and why.
type advice struct{ Of, Request, Text string }

func duration(secs float64) string { return report.Clock(rt.Some(secs)) }
