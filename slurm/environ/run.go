// Package environ makes the Run of a job from the environment that Slurm gives to hooks and tasks.
// It also reads how the job ended from the Epilog's environment.
package environ

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// ErrNoJob means that an environment belongs to no Slurm job or hook.
var ErrNoJob = errors.New("SLURM_JOB_ID is not set")

// JobOfHook returns the identity of the job of a Prolog or Epilog, with its attempt: all that the hooks need. The
// tracker makes the whole Run, by FromHook, of the environment that the Prolog passes on. It fails with ErrNoJob outside a hook.
func JobOfHook(env Env, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is not a Prolog or Epilog of Slurm: %w", err)
	}
	run.Attempt = env.Number("SLURM_JOB_RESTART_COUNT").Or(0)
	return run, nil
}

// FromHook makes the Run from the environment of a Prolog or Epilog, of slurmd or of slurmctld; now
// is when tracking begins. The environment of slurmd's hooks lacks the name of the user's group.
// The caller sets Run.Group and then calls slurm.Describe. FromHook fails with ErrNoJob outside a
// hook.
//
// slurmd's hooks also lack the job's name and array ids, before 26.05 the QOS and before 23.02 the
// times. MergeTaskEnv and accounting add some of them later. In slurmctld's hooks Run.Node is
// empty.
func FromHook(env Env, now time.Time) (rt.Run, error) {
	run, err := JobOfHook(env, now)
	if err != nil {
		return rt.Run{}, err
	}
	run.GPUs = env.Text("SLURM_JOB_GPUS")
	if devices := env.Text("CUDA_VISIBLE_DEVICES"); areUUIDs(devices) {
		run.GPUs = devices
	}
	run.Comment, run.Constraints = env.Text("SLURM_JOB_COMMENT"), env.Text("SLURM_JOB_CONSTRAINTS")
	run.Licenses = env.Text("SLURM_JOB_LICENSES")
	run.ArrayJobID, run.ArrayTaskID = env.Number("SLURM_ARRAY_JOB_ID"), env.Number("SLURM_ARRAY_TASK_ID")
	run.QOS, run.Reservation = env.Text("SLURM_JOB_QOS"), env.Text("SLURM_JOB_RESERVATION")
	run.JobStart, run.JobEndLimit = env.Time("SLURM_JOB_START_TIME"), env.Time("SLURM_JOB_END_TIME")
	run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	run.HetJobID = env.Number("SLURM_HET_JOB_ID")
	run.HetJobOffset = env.Number("SLURM_HET_JOB_OFFSET")
	if strings.HasPrefix(env.Text("SLURM_SCRIPT_CONTEXT"), "epilog") {
		run.JobEndLimit = time.Time{} // in an Epilog the variable is when the job ended
	}
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	return run, nil
}

// FromTask makes the Run of a process inside a job from its own environment. The process is a
// step's task, the batch script, or a shell that salloc started. step is the step of the process's
// cgroup; empty if the process has no such cgroup. The environment does not show the step, because
// the batch script may have the SLURM_STEP_ID of the step that submitted it. now is when tracking
// begins.
//
// As in MergeTaskEnv, variables that may belong to another job are labels. So are the GPUs, see
// ownGPUs, and SLURM_RESTART_COUNT, so that the attempt is 0. The account is not a label: a job
// lacks one only without accounting, and then the user can request any.
//
// Run.Node is empty where Slurm does not name the node (a shell of salloc on a login node).
// HOSTNAME is no substitute, because in some tasks it names the submit host. FromTask fails with
// ErrNoJob outside a job.
func FromTask(env Env, step string, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is not a process of a Slurm job: %w", err)
	}
	run.Step = cmp.Or(step, stepOf(env, run.Node))
	setComponent(&run, env)
	setArray(&run, env)
	run.AllocCPUs = env.Number("SLURM_CPUS_ON_NODE")
	if !run.AllocCPUs.Valid() {
		run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	}
	if _, err := strconv.ParseUint(run.Step, 10, 32); err == nil {
		run.StepTasks = env.Number("SLURM_STEP_NUM_TASKS")
	}
	run.GPUs = ownGPUs(env, step)
	run.WorkDir = cmp.Or(run.WorkDir, env.Text("SLURM_SUBMIT_DIR"))
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	slurm.Describe(&run)
	run.Meta.Merge(labels(&run, env))
	run.Meta.Merge(taskLabels(&run, env))
	mergeUser(&run, env, slurm.MaxValue)
	return run, nil
}

// ownGPUs returns the GPUs that slurmstepd set for a process of this step; empty if the variable
// can be another job's. In the steps batch and interactive, slurmstepd (22.05 and later, with the
// plugin gres/gpu) sets or removes SLURM_JOB_GPUS. In the other steps it sets or removes
// SLURM_STEP_GPUS, which can list a part of the job's GPUs. There SLURM_JOB_GPUS comes from srun's
// caller.
func ownGPUs(env Env, step string) string {
	ofJob, ofStep := env.Text("SLURM_JOB_GPUS"), env.Text("SLURM_STEP_GPUS")
	if step == "batch" || step == "interactive" {
		return ofJob
	}
	_, err := strconv.ParseUint(step, 10, 32)
	isSame := ofJob == "" || ofJob == ofStep
	if err != nil || !isSame {
		return ""
	}
	return ofStep
}

// taskLabels returns the attempt and the GPUs that the environment of a task has but does not
// prove. slurmstepd sets SLURM_RESTART_COUNT only in a job that was requeued.
func taskLabels(run *rt.Run, env Env) rt.Metadata {
	tags := map[string]string{}
	if n := env.Number("SLURM_RESTART_COUNT").Or(0); n > 0 {
		tags[slurm.EnvironAttemptTag] = strconv.FormatUint(n, 10)
	}
	if gpus := env.Text("SLURM_JOB_GPUS", "SLURM_STEP_GPUS"); gpus != "" && run.GPUs == "" {
		tags[slurm.EnvironGPUsTag] = gpus
	}
	return rt.Metadata{Tags: tags}
}

// areUUIDs reports whether a list has only UUIDs, as for divided GPUs (MIG). Slurm numbers these
// GPUs in an order of its own. A task may have a part of the job's list.
func areUUIDs(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if !strings.HasPrefix(name, "MIG-") && !strings.HasPrefix(name, "GPU-") {
			return false
		}
	}
	return true
}

// base makes a Run from the variables that hooks and tasks have in common.
func base(env Env, now time.Time) (rt.Run, error) {
	id := env.Number("SLURM_JOB_ID", "SLURM_JOBID")
	if n, ok := id.Get(); !ok || n == 0 {
		return rt.Run{}, ErrNoJob
	}
	return rt.Run{
		Identity: rt.Identity{
			Cluster: env.Text("SLURM_CLUSTER_NAME"),
			JobID:   id,
			Node:    env.Text("SLURMD_NODENAME"),
			SLUID:   sluid(env),
			Start:   now,
		},
		Allocation: rt.Allocation{
			Scheduler: "slurm",
			User:      env.Text("SLURM_JOB_USER"),
			UID:       env.Number("SLURM_JOB_UID", "SLURM_UID"),
			GID:       env.Number("SLURM_JOB_GID"),
			Group:     env.Text("SLURM_JOB_GROUP"),
			Account:   env.Text("SLURM_JOB_ACCOUNT"),
			Partition: env.Text("SLURM_JOB_PARTITION"),
			NodeList:  env.Text("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
			NumNodes:  env.Number("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
			WorkDir:   env.Text("SLURM_JOB_WORK_DIR"),
		},
		Ending: rt.Ending{State: rt.StateRunning},
	}, nil
}

// stepOf returns the step of a task. The batch script's environment has no step id.
func stepOf(env Env, node string) string {
	if node != "" && env.Text("SLURM_STEP_ID", "SLURM_STEPID") == "" {
		return "batch"
	}
	return env.Step()
}

// Step returns the step: "0", "batch", "extern", "interactive"; empty without a valid id.
// Slurm numbers its special steps from the top of 32 bits (slurm.h).
func (e Env) Step() string {
	id := e.Text("SLURM_STEP_ID", "SLURM_STEPID")
	switch id {
	case "4294967290":
		return "interactive"
	case "4294967291":
		return "batch"
	case "4294967292":
		return "extern"
	}
	if _, err := strconv.ParseUint(id, 10, 32); err != nil {
		return ""
	}
	return id
}

// sluid returns the job's SLUID if it has the form of one, because it names a directory.
func sluid(env Env) string {
	if s := env.Text("SLURM_JOB_SLUID"); slurm.IsSLUID(s) {
		return s
	}
	return ""
}

// maxComponents limits the components of a heterogeneous job; Slurm allows 128.
const maxComponents = 128

// hetName is the name of a variable that a heterogeneous job has for each component.
func hetName(name string, component uint64) string {
	return fmt.Sprintf("%s_HET_GROUP_%d", name, component)
}

// componentsOf returns the number of components of the heterogeneous job of a task, 0 for another
// job. A task of such a job has the leader's id as SLURM_JOB_ID. A job that was submitted from one
// has the variables of the heterogeneous job.
func componentsOf(env Env) uint64 {
	leader := env.Number(hetName("SLURM_JOB_ID", 0))
	if !leader.Valid() || leader != env.Number("SLURM_JOB_ID", "SLURM_JOBID") {
		return 0
	}
	return min(env.Number("SLURM_HET_SIZE").Or(0), maxComponents)
}

// setHet sets the run's component from the environment of one of its tasks.
func setHet(run *rt.Run, env Env) {
	size := componentsOf(env)
	if size == 0 {
		return
	}
	run.HetJobID = env.Number(hetName("SLURM_JOB_ID", 0))
	for i := range size {
		if id := env.Number(hetName("SLURM_JOB_ID", i)); id.Valid() && id == run.JobID {
			run.HetJobOffset.Set(i)
			return
		}
	}
}

// setComponent gives the run the values of its own component. A task's SLURM_JOB_ID is the
// leader's, and the lists are for all components. The node identifies the component, unless two
// components share the node.
func setComponent(run *rt.Run, env Env) {
	var here []uint64
	for i := range componentsOf(env) {
		hosts, err := ExpandHosts(env.Text(hetName("SLURM_JOB_NODELIST", i)))
		if err == nil && slices.Contains(hosts, run.Node) {
			here = append(here, i)
		}
	}
	if len(here) == 1 {
		i := here[0]
		if id := env.Number(hetName("SLURM_JOB_ID", i)); id.Valid() {
			run.JobID = id
		}
		for field, name := range map[*string]string{
			&run.Account: "SLURM_JOB_ACCOUNT", &run.Partition: "SLURM_JOB_PARTITION",
			&run.NodeList: "SLURM_JOB_NODELIST",
		} {
			if v := env.Text(hetName(name, i)); v != "" {
				*field = v
			}
		}
		if n := env.Number(hetName("SLURM_JOB_NUM_NODES", i)); n.Valid() {
			run.NumNodes = n
		}
	}
	setHet(run, env)
}
