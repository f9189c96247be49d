package report

import (
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
)

// allocatedGPUs is the number of GPUs that the job has on a node.
func (s *Summary) allocatedGPUs() int { return int(rt.CountGPUs(s.Run.GPUs)) }

// allocatedGPUs is the number of GPUs that the job has on all nodes.
func (l NodeRuns) allocatedGPUs() (n int) {
	for _, s := range l {
		n += s.allocatedGPUs()
	}
	return n
}

// hasUnreadGPUs reports whether a node allocated more GPUs than were read.
func (s *Summary) hasUnreadGPUs() bool { return s.allocatedGPUs() > len(s.GPUs) }

// gpusInUse returns the highest number of GPUs of a node, in all runs, that were busy or had a
// process. runs is the number of runs that show what a complete run needs. unread reports whether
// one of these has a GPU that was not read.
func (a *adviser) gpusInUse() (used, runs int, unread bool) {
	for _, r := range a.runs {
		isComplete := r.whyNone() == ""
		if isComplete && r.GPUs.Count > 0 {
			runs++
		}
		if isComplete && slices.ContainsFunc(r.Runs, (*Summary).hasUnreadGPUs) {
			unread = true
		}
		for _, s := range r.Runs {
			here := 0
			for i := range s.GPUs {
				if !s.GPUs[i].isIdle() {
					here++
				}
			}
			used = max(used, here)
		}
	}
	return used, runs, unread
}

func (a *adviser) gpus() {
	g := &a.job.GPUs
	one := Advice{Resource: "gpus", Verdict: WellSized, Explain: []string{
		"a GPU counts as unused if the driver reported no process on it, and no reading showed it busy",
	}}
	used, runs, unread := a.gpusInUse()
	one.Runs = runs
	have := 0
	for _, s := range a.job.Runs {
		here := 0
		for i := range s.GPUs {
			if !s.GPUs[i].isOfOthers() {
				here++
			}
		}
		have = max(have, here)
	}
	idle := g.idleText()
	from := onlyIf(runs > 1, fmt.Sprintf(", from %d runs", runs))
	switch {
	case have == 0: // also a job that used GPUs without a request
		return
	case g.Idle > 0 && unread:
		one.Verdict, one.Text = NotKnown, idle+"; others were not read"
	case used == 0:
		one.Verdict, one.Request = Less, "no GPU"
		one.Text = idle + from
	case used < have:
		one.Verdict, one.Request = Less, fmt.Sprintf("--gpus-per-node=%d", used)
		one.Text = idle + from
	case g.Idle > 0:
		one.Verdict, one.Text = NotKnown, fmt.Sprintf("%s, but a node used %d in one of the runs", idle, used)
	case !g.BusyPct.Valid():
		return
	default:
		busy := a.job.gpusBusyPct()
		one.Text = fmt.Sprintf("%s, busy %s of the time", plural(g.Count, "GPU"), Number(busy, "%.0f %%"))
		if busy.Or(0) < 50 {
			one.Verdict = NotKnown
		}
	}
	a.add(one)
}

// gpusBusyPct is JobGPUs.BusyPct of the time in which the job was not suspended: no GPU works for a
// suspended job.
func (j *JobSummary) gpusBusyPct() (pct rt.Opt[float64]) {
	ran := j.ElapsedSecs.Or(0)
	if busy, ok := j.GPUs.BusyPct.Get(); ok && ran > 0 {
		pct.Set(min(100, busy*(ran+j.SuspendedSecs.Or(0))/ran))
	}
	return pct
}

// idleGPUs says of a job that gets no other advice about its GPUs how many of them were idle.
func (a *adviser) idleGPUs() {
	g := &a.job.GPUs
	isOver := a.job.State != rt.StateRunning && a.job.Outcome != rt.OutcomeFinished
	if isOver && g.Idle > 0 {
		a.add(Advice{Resource: "gpus", Verdict: NotKnown, Runs: 1, Text: g.idleText()})
	}
}

func (g *JobGPUs) idleText() string {
	return fmt.Sprintf("%d of %s busy at no reading", g.Idle, plural(g.Count, "GPU"))
}
