package report

import (
	"fmt"
	"slices"
	"strings"
)

// hasUnreadGPUs reports whether a node allocated more GPUs than were read.
func (s *Summary) hasUnreadGPUs() bool {
	return s.Run.GPUs != "" && strings.Count(s.Run.GPUs, ",")+1 > len(s.GPUs)
}

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
		have = max(have, len(s.GPUs))
	}
	idle := fmt.Sprintf("%d of %s busy at no reading", g.Idle, plural(g.Count, "GPU"))
	from := onlyIf(runs > 1, fmt.Sprintf(", from %d runs", runs))
	switch {
	case g.Count == 0:
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
	case g.BusyPct.Or(0) < 50:
		one.Verdict, one.Text = NotKnown, fmt.Sprintf("%s, busy %s of the time", plural(g.Count, "GPU"), number(g.BusyPct, "%.0f %%"))
	default:
		one.Text = fmt.Sprintf("%s, busy %s of the time", plural(g.Count, "GPU"), number(g.BusyPct, "%.0f %%"))
	}
	a.add(one)
}
