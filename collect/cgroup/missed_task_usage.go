package cgroup

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// addMissedUsage corrects the tasks of an ended step that were not read at their end. If there is
// one such task, it gets the CPU time of the step that no other task used. If there are several,
// their shares are unknown, which is logged.
func (s *taskSet) addMissedUsage(step *group) {
	var missed []*group
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
	if !step.isFinal {
		s.state.Note(missedEnd(step.r.Step))
	}
	if !step.isFinal && !step.isExtern {
		s.IsEndMissed = true
	}
	if len(missed) == 0 || isRounding {
		return
	}
	detail := fmt.Sprintf("the end of task %s of step %s was not read; ", strings.Join(names, ","), step.r.Step)
	switch {
	case isKnown && len(missed) == 1:
		missed[0].addUsage(rest)
		detail += "its CPU time is what its step used beyond the other tasks; all else is"
	case isKnown:
		detail += fmt.Sprintf("%.3f s of CPU time of the step are theirs, but their shares are not known; their figures are", float64(rest.Usage)/1e6)
	default:
		detail += "its figures are"
	}
	s.state.Note(rt.Event{Kind: "job", Name: "tasks", Status: "estimated", Detail: detail + " of the last reading before"})
}

// missedEnd is the event of a step that was not read at its end.
func missedEnd(step string) rt.Event {
	return rt.Event{Kind: "job", Name: "tasks", Status: "estimated",
		Detail: fmt.Sprintf("the end of step %s was not read; its figures are of the last reading before, or absent", step)}
}

// missedEarlier is the event of a step that an earlier attempt of the job left behind. It is not known
// whether this attempt has used it.
func missedEarlier(step string) rt.Event {
	return rt.Event{Kind: "job", Name: "tasks", Status: "estimated",
		Detail: fmt.Sprintf("the cgroup of step %s, which an earlier attempt of the job left behind, was removed without a last reading; if this attempt has used it, its figures are absent", step)}
}

// usageOf returns the CPU time of a reading, zero if it has none.
func usageOf(r *rt.StepReading) cpuTime {
	return cpuTimeOf(r.CPUUsage, r.CPUUser, r.CPUSystem)
}

// cpu returns the figures of CPU time in the last reading.
func (g *group) cpu() cpuFigures {
	return cpuFigures{Usage: &g.r.CPUUsage, User: &g.r.CPUUser, System: &g.r.CPUSystem}
}

// addUsage adds CPU time to the last reading. User and system time keep their ratio.
func (g *group) addUsage(t cpuTime) {
	last := usageOf(&g.r)
	g.r.CPUUsage.Set(uint64(last.Usage + t.Usage))
	g.cpu().Balance(last)
}
