package environ

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// maxTaskValue limits a value of a job's process, which its user writes, in bytes.
const maxTaskValue = 256

// taskNames are the variables that are believed of a job's process, beside the
// TRACKER_* of section 9.3 and the numbered ones of heterogeneous jobs.
var taskNames = []string{
	"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID",
	"SLURM_JOB_NAME", "SLURM_JOB_QOS", "SLURM_JOB_RESERVATION",
	"SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
	"SLURM_HET_SIZE", "SLURM_PACK_SIZE",
	"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE",
}

// MergeTaskEnv completes a run of the node's Prolog by what the environment of one
// of the job's own processes says (/proc/<pid>/environ, of which the caller found
// the process in the job's cgroup) and tells whether the run is changed. Only
// names on a list are believed, and the user's TRACKER_* variables of section 9.3
// win over what the scheduler says. An environment of another job is refused: in a
// heterogeneous component SLURM_JOB_ID is the leader's.
//
// It may be called for several processes: the batch script's name of the job wins
// over a step's, which may be the step's own.
func MergeTaskEnv(run *rt.Run, environ []byte) bool {
	env := taskEnv(environ)
	id := env.Number("SLURM_JOB_ID", "SLURM_JOBID")
	if !id.Valid() || id != run.JobID && id != run.HetJobID {
		return false
	}
	before := *run
	inStep := env.Text("SLURM_STEP_ID", "SLURM_STEPID") != ""
	slurm.Relearn(run, func(run *rt.Run) { learnTask(run, env) })
	slurm.SetJobName(run, env.Text("SLURM_JOB_NAME"), !inStep)
	run.Meta.Merge(userMetadata(env, maxTaskValue))
	return !reflect.DeepEqual(before, *run)
}

// learnTask fills the scheduler's fields that a Prolog did not know.
func learnTask(run *rt.Run, env Env) {
	array, task := env.Number("SLURM_ARRAY_JOB_ID"), env.Number("SLURM_ARRAY_TASK_ID")
	if !run.ArrayJobID.Valid() && array.Valid() && task.Valid() {
		run.ArrayJobID, run.ArrayTaskID = array, task
	}
	for _, late := range [...]struct {
		field *string
		name  string
	}{{&run.QOS, "SLURM_JOB_QOS"}, {&run.Reservation, "SLURM_JOB_RESERVATION"}} {
		if *late.field == "" {
			*late.field = env.Text(late.name)
		}
	}
	if run.JobStart.IsZero() {
		run.JobStart = env.Time("SLURM_JOB_START_TIME")
	}
	if run.JobEndLimit.IsZero() {
		run.JobEndLimit = env.Time("SLURM_JOB_END_TIME")
	}
	if !run.HetJobOffset.Valid() {
		setHet(run, env)
	}
	if !run.AllocMem.Valid() {
		setMemory(run, env)
	}
}

// taskEnv returns the variables of a process's environment that are believed.
func taskEnv(environ []byte) Env {
	env := Parse(environ)
	maps.DeleteFunc(env, func(name, value string) bool {
		return !believed(name) || !slurm.Printable(value, maxTaskValue)
	})
	return env
}

func believed(name string) bool {
	if slices.Contains(taskNames, name) {
		return true
	}
	for _, per := range [...]string{"SLURM_JOB_ID", "SLURM_MEM_PER_NODE"} {
		if strings.HasPrefix(name, per+"_HET_GROUP_") || strings.HasPrefix(name, per+"_PACK_GROUP_") {
			return true
		}
	}
	field, tracker := strings.CutPrefix(name, "TRACKER_")
	return tracker && slices.Contains(rt.MetadataFields[:], strings.ToLower(field))
}

// userMetadata returns the fields that TRACKER_* variables name.
func userMetadata(env Env, limit int) rt.Metadata {
	var m rt.Metadata
	for _, name := range rt.MetadataFields {
		if v := env["TRACKER_"+strings.ToUpper(name)]; slurm.Printable(v, limit) {
			*m.Field(name) = v
		}
	}
	return m
}
