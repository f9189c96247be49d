package powerapi

import (
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/slurm/layout"
)

// target is a job as a report's target names it: <cluster>:<job id>[_<array
// task>][.<step>], or the path of a cgroup with job_<job id> in it, as sensors do
// that know nothing of Slurm.
type target struct {
	cluster string // empty where the target does not say
	label   string // "12", "10_3"
	part    string // of the job, "0" for its step; empty for all of it
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
	id, task, isTask := strings.Cut(t.label, "_")
	return t, isJobID(id) && (!isTask || isNumber(task))
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

func isNumber(text string) bool {
	_, err := strconv.ParseUint(text, 10, 32)
	return err == nil
}

func isJobID(text string) bool {
	id, err := strconv.ParseUint(text, 10, 32)
	return err == nil && id > 0
}

// job is the target of all of the job.
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

// identify puts the job into a run. Of a task of an array the target does not tell the
// job's own id.
func (t target) identify(run *rt.Run) {
	run.Cluster = t.cluster
	label, task, isTask := strings.Cut(t.label, "_")
	id, _ := strconv.ParseUint(label, 10, 32) // parseTarget has seen that they are numbers
	if !isTask {
		run.JobID.Set(id)
		return
	}
	n, _ := strconv.ParseUint(task, 10, 32)
	run.ArrayJobID.Set(id)
	run.ArrayTaskID.Set(n)
}

// isOf says whether the job, or this part of it, is the run's.
func (t target) isOf(run *rt.Run) bool {
	id, known := run.JobID.Get()
	label, _, _ := strings.Cut(run.Label(), ".")
	if !known || t.label != label && t.label != strconv.FormatUint(id, 10) {
		return false
	}
	return (t.cluster == "" || t.cluster == run.Cluster) && (run.Step == "" || run.Step == t.part)
}

// targetsOf are those that a report names.
func targetsOf(report powerapi.Report) []string {
	switch r := report.(type) {
	case *powerapi.HWPCReport:
		return []string{r.Target}
	case *powerapi.PowerReport:
		return []string{r.Target}
	case *powerapi.ProcfsReport:
		return r.Targets
	}
	return nil
}
