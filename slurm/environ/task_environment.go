package environ

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// maxTaskValue limits a value of a task's environment, in bytes: the user writes it.
const maxTaskValue = 256

// taskNames are the variables that are used from a job's process, with the TRACKER_* of
// section 9.3 and the numbered ones of heterogeneous jobs.
var taskNames = []string{
	"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "SLURM_STEPID",
	"SLURM_JOB_NAME", "SLURM_JOB_QOS", "SLURM_JOB_RESERVATION",
	"SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME",
	"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
	"SLURM_HET_SIZE", "SLURM_PACK_SIZE",
	"SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_GPUS_ON_NODE",
}

// MergeTaskEnv adds to a run of slurmd's Prolog what the environment of a process has that
// the caller found in the job's cgroup. It reports whether that changed
// the run. Only variables on a list are used; the user's TRACKER_* of section 9.3 replace
// the scheduler's values. The environment of another job is ignored. In a component of a
// heterogeneous job SLURM_JOB_ID is the leader's.
//
// It may be called for several processes: the batch script's name of the job replaces that
// of a step, which may be the step's own.
func MergeTaskEnv(run *rt.Run, env Env) bool {
	env = taskEnv(env)
	id := env.Number("SLURM_JOB_ID", "SLURM_JOBID")
	isOurs := id == run.JobID || id == run.HetJobID
	if !id.Valid() || !isOurs {
		return false
	}
	before := *run
	inStep := env.Text("SLURM_STEP_ID", "SLURM_STEPID") != ""
	slurm.Update(run, func(run *rt.Run) { setFromTask(run, env) })
	slurm.SetJobName(run, env.Text("SLURM_JOB_NAME"), !inStep)
	run.Meta.Merge(userMetadata(env, maxTaskValue))
	return !reflect.DeepEqual(before, *run)
}

// setFromTask sets the scheduler's fields that a Prolog's environment lacks.
func setFromTask(run *rt.Run, env Env) {
	array, task := env.Number("SLURM_ARRAY_JOB_ID"), env.Number("SLURM_ARRAY_TASK_ID")
	if !run.ArrayJobID.Valid() && array.Valid() && task.Valid() {
		run.ArrayJobID, run.ArrayTaskID = array, task
	}
	run.QOS = cmp.Or(run.QOS, env.Text("SLURM_JOB_QOS"))
	run.Reservation = cmp.Or(run.Reservation, env.Text("SLURM_JOB_RESERVATION"))
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

// taskEnv returns the variables of a process's environment that are used.
func taskEnv(env Env) Env {
	env = maps.Clone(env)
	maps.DeleteFunc(env, func(name, value string) bool {
		return !isUsed(name) || !slurm.Printable(value, maxTaskValue)
	})
	return env
}

func isUsed(name string) bool {
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

// userMetadata returns the fields that TRACKER_* variables set.
func userMetadata(env Env, limit int) rt.Metadata {
	var m rt.Metadata
	for _, name := range rt.MetadataFields {
		if v := env["TRACKER_"+strings.ToUpper(name)]; slurm.Printable(v, limit) {
			*m.Field(name) = v
		}
	}
	return m
}
