package cgroup

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// share gives the CPU time that a step which ended has beyond its tasks' to the one
// whose last reading was missed. Of several the ledger tells: whose it is, nobody
// knows.
func (j *Job) share(step *group) {
	var missed []*group
	var names []string
	tasks, rest := step.tasks, cpuOf(&step.r).minus(step.used)
	for _, g := range j.groups {
		if g.step != step {
			continue
		}
		tasks++
		rest = rest.minus(cpuOf(&g.r))
		if !g.final {
			missed = append(missed, g)
			names = append(names, fmt.Sprint(g.r.Task.Or(0)))
		}
	}
	known := step.final && !step.mixed && step.r.CPUUsage.Valid()
	if len(missed) == 0 || known && rest.usage <= int64(tasks) { // microseconds were rounded
		return
	}
	detail := fmt.Sprintf("the end of task %s of step %s was not read; ", strings.Join(names, ","), step.r.Step)
	switch {
	case known && len(missed) == 1:
		missed[0].addCPU(rest)
		detail += fmt.Sprintf("cpu_usec=%d that its step has beyond the other tasks are counted as its own; all else is", rest.usage)
	case known:
		detail += fmt.Sprintf("cpu_usec=%d of the step are theirs and counted as none's; their figures are", rest.usage)
	default:
		detail += "its figures are"
	}
	j.note(rt.Event{Kind: "job", Name: "tasks", Status: "estimated", Detail: detail + " of the last reading before"})
}

// cpuOf is the CPU time of a reading, zero where it has none.
func cpuOf(r *rt.StepReading) cpuTime {
	return cpuTime{int64(r.CPUUsage.Or(0)), int64(r.CPUUser.Or(0)), int64(r.CPUSystem.Or(0))}
}

// addCPU adds CPU time to what was read.
func (g *group) addCPU(t cpuTime) {
	was := cpuOf(&g.r)
	g.r.CPUUsage.Set(uint64(was.usage + t.usage))
	if g.r.CPUUser.Valid() && g.r.CPUSystem.Valid() && t.user >= 0 && t.system >= 0 {
		g.r.CPUUser.Set(uint64(was.user + t.user))
		g.r.CPUSystem.Set(uint64(was.system + t.system))
	}
}
