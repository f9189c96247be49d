package slurm

import (
	"cmp"
	"maps"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// maxTag limits a tag's value, in bytes.
const maxTag = 1024

// Describe fills run.Meta from the scheduler's fields of the run: names, tags and the
// external id. It overwrites the user's values; Update keeps them.
func Describe(run *rt.Run) { run.Meta.Merge(described(run)) }

// Update calls change, which changes the scheduler's fields of the run, and renews the
// values of run.Meta that come from them. The user's values stay.
func Update(run *rt.Run, change func(*rt.Run)) {
	before := described(run)
	change(run)
	after := described(run)
	for _, name := range rt.MetadataFields[1:] { // the job's name comes from no field of the run
		if v := run.Meta.Field(name); *v == *before.Field(name) {
			*v = *after.Field(name)
		}
	}
	run.Meta.Tags = maps.Clone(run.Meta.Tags) // copies of the run share the map
	if run.Meta.Tags == nil {
		run.Meta.Tags = make(map[string]string, len(after.Tags))
	}
	for k, v := range before.Tags {
		if run.Meta.Tags[k] == v {
			delete(run.Meta.Tags, k)
		}
	}
	for k, v := range after.Tags {
		if _, users := run.Meta.Tags[k]; !users {
			run.Meta.Tags[k] = v
		}
	}
}

// These tags have the array ids, such as 12_3, the QOS, the attempt and the GPUs from the
// environment of a job's processes. Nothing confirms them, because sbatch passes on the environment
// of its caller.
const (
	EnvironArrayTag   = "environ_array"
	EnvironQOSTag     = "environ_qos"
	EnvironAttemptTag = "environ_attempt"
	EnvironGPUsTag    = "environ_gpus"
)

// jobNameTag has the scheduler's name of the job, which the user's may replace.
const jobNameTag = "slurm_job_name"

// SetJobName sets the scheduler's name of the job. A name that is not sure (a step may
// have its own) replaces no other name. No name replaces the user's.
func SetJobName(run *rt.Run, name string, sure bool) {
	old := run.Meta.Tags[jobNameTag]
	isKept := old != "" && !sure
	if name == "" || isKept {
		return
	}
	if run.Meta.JobName == "" || run.Meta.JobName == old {
		run.Meta.JobName = name
	}
	if run.Meta.Tags == nil {
		run.Meta.Tags = make(map[string]string)
	}
	run.Meta.Tags[jobNameTag] = name
}

// described returns the metadata that comes from the scheduler's fields of a run.
func described(run *rt.Run) rt.Metadata {
	m := rt.Metadata{
		ProjectName:   run.Account,
		TaskName:      run.Step,
		Team:          cmp.Or(run.Group, run.Account),
		Orchestrator:  run.Scheduler,
		Executor:      run.Cluster + "/" + run.Partition,
		ExternalRunID: run.ExternalRunID(),
		Tags:          make(map[string]string, 16),
	}
	if task, ok := run.ArrayTaskID.Get(); ok {
		m.TaskName = strconv.FormatUint(task, 10)
	}
	for _, tag := range [...]struct{ name, value string }{
		{"user", run.User}, {"account", run.Account}, {"partition", run.Partition}, {"qos", run.QOS},
		{"reservation", run.Reservation}, {"nodelist", run.NodeList}, {"gpus", run.GPUs},
		{"work_dir", run.WorkDir}, {"comment", run.Comment}, {"constraints", run.Constraints},
		{"licenses", run.Licenses}, {"sluid", run.SLUID},
	} {
		if tag.value != "" {
			m.Tags["slurm_"+tag.name] = clip(tag.value, maxTag)
		}
	}
	for _, tag := range [...]struct {
		name  string
		value rt.Opt[uint64]
		unit  uint64
	}{
		{"job_id", run.JobID, 1}, {"uid", run.UID, 1}, {"num_nodes", run.NumNodes, 1},
		{"cpus", run.AllocCPUs, 1}, {"memory_mib", run.AllocMem, 1 << 20},
	} {
		if n, ok := tag.value.Get(); ok {
			m.Tags["slurm_"+tag.name] = strconv.FormatUint(n/tag.unit, 10)
		}
	}
	return m
}

// clip cuts s to at most limit bytes without splitting a character.
func clip(s string, limit int) string {
	return strings.ToValidUTF8(s[:min(len(s), limit)], "")
}
