package powerapi

import (
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/layout"
)

// target is a job in the target of a report: <cluster>:<job id>[_<array task>][.<step>]. A sensor without support for
// Slurm gives the path of a cgroup, with job_<job id>.
type target struct {
	cluster string // empty if the target has none
	label   string // "12", "10_3"
	part    string // "0" for a step; empty for the whole job
}

func parseTarget(text string) (t target, ok bool) {
	if strings.HasPrefix(text, "/") {
		return parseCgroup(text)
	}
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return t, false
	}
	t.cluster = text[:at]
	t.label, t.part, _ = strings.Cut(text[at+1:], ".")
	label, task, isTask := strings.Cut(t.label, "_")
	if isTask {
		_, err := strconv.ParseUint(task, 10, 32)
		if err != nil {
			return t, false
		}
	}
	id, err := strconv.ParseUint(label, 10, 32)
	return t, err == nil && id > 0
}

// parseCgroup parses ".../job_12" and ".../job_12/step_0/task_1".
func parseCgroup(path string) (t target, ok bool) {
	path = strings.TrimRight(path, "/")
	p, _ := layout.Parse(path)
	id, ok := p.JobID.Get()
	t.label = strconv.FormatUint(id, 10)
	t.part = strings.TrimPrefix(path[len(p.Job):], "/")
	if p.Step != "" {
		t.part = p.Step + path[len(p.StepDir):]
	}
	return t, ok && id > 0
}

// job returns the target of the whole job.
func (t target) job() target {
	return target{cluster: t.cluster, label: t.label}
}

func (t target) String() string {
	s := t.cluster + ":" + t.label
	if t.part != "" {
		s += "." + t.part
	}
	return s
}

// identify sets the job of a run. The target of an array task does not have its own job id.
func (t target) identify(run *rt.Run) {
	run.Cluster = t.cluster
	label, task, isTask := strings.Cut(t.label, "_")
	id, _ := strconv.ParseUint(label, 10, 32) // parseTarget has checked the numbers
	if !isTask {
		run.JobID.Set(id)
		return
	}
	n, _ := strconv.ParseUint(task, 10, 32)
	run.ArrayJobID.Set(id)
	run.ArrayTaskID.Set(n)
}

// isOf reports whether the target is the job or step of the run.
func (t target) isOf(run *rt.Run) bool {
	id, known := run.JobID.Get()
	label, _, _ := strings.Cut(run.Label(), ".")
	isJob := t.label == label || t.label == strconv.FormatUint(id, 10)
	isCluster := t.cluster == "" || t.cluster == run.Cluster
	isStep := run.Step == "" || run.Step == t.part
	return known && isJob && isCluster && isStep
}

// targetsOf returns the targets of a report.
func targetsOf(report Report) []string {
	switch r := report.(type) {
	case *HWPCReport:
		return []string{r.Target}
	case *PowerReport:
		return []string{r.Target}
	}
	return report.(*ProcfsReport).Targets
}
