package tasks

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup/counters"
)

// addMissedUsage adds the CPU time that a step which ended has beyond its tasks' to the
// task that was not read at its end. If there are several, their shares are unknown,
// which is logged.
func (s *Set) addMissedUsage(step *Group) {
	var missed []*Group
	var names []string
	tasks, rest := step.all.endedTasks, usageOf(&step.r).Minus(step.all.endedUsage)
	for _, g := range s.groups {
		if g.step != step {
			continue
		}
		tasks++
		rest = rest.Minus(usageOf(&g.r))
		switch {
		case g.isFinal:
		case s.isReportable(g):
			missed = append(missed, g)
			names = append(names, fmt.Sprint(g.r.Task.Or(0)))
		default:
			step.all.isMixed = true
		}
	}
	isKnown := step.isFinal && !step.all.isMixed && step.r.CPUUsage.Valid()
	isRounding := isKnown && rest.Usage <= int64(tasks) // microseconds were rounded
	if len(missed) == 0 || isRounding {
		return
	}
	detail := fmt.Sprintf("the end of task %s of step %s was not read; ", strings.Join(names, ","), step.r.Step)
	switch {
	case isKnown && len(missed) == 1:
		missed[0].addUsage(rest)
		detail += fmt.Sprintf("cpu_usec=%d that its step has beyond the other tasks are counted as its own; all else is", rest.Usage)
	case isKnown:
		detail += fmt.Sprintf("cpu_usec=%d of the step are theirs, but their shares are unknown; their figures are", rest.Usage)
	default:
		detail += "its figures are"
	}
	s.log.Note(rt.Event{Kind: "job", Name: "tasks", Status: "estimated", Detail: detail + " of the last reading before"})
}

// usageOf is the CPU time of a reading, zero if it has none.
func usageOf(r *rt.StepReading) counters.CPUTime {
	return counters.CPUTimeOf(r.CPUUsage, r.CPUUser, r.CPUSystem)
}

// addUsage adds CPU time to what was read.
func (g *Group) addUsage(t counters.CPUTime) {
	was := usageOf(&g.r)
	g.r.CPUUsage.Set(uint64(was.Usage + t.Usage))
	if g.r.CPUUser.Valid() && g.r.CPUSystem.Valid() && t.User >= 0 && t.System >= 0 {
		g.r.CPUUser.Set(uint64(was.User + t.User))
		g.r.CPUSystem.Set(uint64(was.System + t.System))
	}
}
