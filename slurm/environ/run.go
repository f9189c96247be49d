// Package environ makes the Run of a job from the environment that Slurm gives its hooks
// and its tasks, and reads how the job ended from that of its Epilog.
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

// ErrNoJob means that an environment is not that of a Slurm job or hook.
var ErrNoJob = errors.New("SLURM_JOB_ID is not set")

// FromHook makes the Run of a Prolog or Epilog, of slurmd or of slurmctld, from the
// environment that Slurm gives it; now is when tracking begins. The environment of
// slurmd's hooks lacks the name of the user's group: the caller sets Run.Group and then
// calls slurm.Describe. FromHook fails with ErrNoJob outside a hook.
//
// slurmd's hooks also lack the job's name, its array ids and its QOS, in most versions
// its times too: MergeTaskEnv adds them later. In slurmctld's hooks Run.Node is empty.
func FromHook(env Env, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is not a Prolog or Epilog of Slurm: %w", err)
	}
	if devices := env.Text("CUDA_VISIBLE_DEVICES"); areUUIDs(devices) {
		run.GPUs = devices
	}
	run.Attempt = env.Number("SLURM_JOB_RESTART_COUNT").Or(0)
	run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	run.HetJobID = env.Number("SLURM_HET_JOB_ID", "SLURM_PACK_JOB_ID")
	run.HetJobOffset = env.Number("SLURM_HET_JOB_OFFSET", "SLURM_PACK_JOB_OFFSET")
	if strings.HasPrefix(env.Text("SLURM_SCRIPT_CONTEXT"), "epilog") {
		run.JobEndLimit = time.Time{} // in an Epilog the variable is when the job ended
	}
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	return run, nil
}

// FromTask makes the Run of a process inside a job from its own environment: a step's
// task, the batch script, or a shell that salloc started. now is when tracking begins.
// Run.Node is empty where Slurm does not name the node (a shell of salloc on a login
// node); HOSTNAME is no substitute, because some tasks have that of the submit host.
// FromTask fails with ErrNoJob outside a job.
func FromTask(env Env, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is not a process of a Slurm job: %w", err)
	}
	run.Attempt = env.Number("SLURM_RESTART_COUNT").Or(0)
	run.Step = stepOf(env, run.Node)
	setComponent(&run, env)
	run.AllocCPUs = env.Number("SLURM_CPUS_ON_NODE")
	if !run.AllocCPUs.Valid() {
		run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	}
	setMemory(&run, env)
	run.StepTasks = env.Number("SLURM_STEP_NUM_TASKS")
	run.GPUs = cmp.Or(run.GPUs, env.Text("SLURM_STEP_GPUS"))
	run.WorkDir = cmp.Or(run.WorkDir, env.Text("SLURM_SUBMIT_DIR"))
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	slurm.Describe(&run)
	run.Meta.Merge(userMetadata(env, slurm.MaxValue))
	return run, nil
}

// areUUIDs reports whether a list has only UUIDs, as those of divided GPUs (MIG), which Slurm's
// numbers count in an order of their own. A task may have a part of the job's list.
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
			Cluster:     env.Text("SLURM_CLUSTER_NAME"),
			JobID:       id,
			ArrayJobID:  env.Number("SLURM_ARRAY_JOB_ID"),
			ArrayTaskID: env.Number("SLURM_ARRAY_TASK_ID"),
			Node:        env.Text("SLURMD_NODENAME"),
			SLUID:       sluid(env),
			Start:       now,
		},
		Allocation: rt.Allocation{
			Scheduler:   "slurm",
			User:        env.Text("SLURM_JOB_USER"),
			UID:         env.Number("SLURM_JOB_UID", "SLURM_UID"),
			GID:         env.Number("SLURM_JOB_GID"),
			Group:       env.Text("SLURM_JOB_GROUP"),
			Account:     env.Text("SLURM_JOB_ACCOUNT"),
			Partition:   env.Text("SLURM_JOB_PARTITION"),
			QOS:         env.Text("SLURM_JOB_QOS"),
			Reservation: env.Text("SLURM_JOB_RESERVATION"),
			NodeList:    env.Text("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
			NumNodes:    env.Number("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
			GPUs:        env.Text("SLURM_JOB_GPUS"),
			WorkDir:     env.Text("SLURM_JOB_WORK_DIR"),
			Comment:     env.Text("SLURM_JOB_COMMENT"),
			Constraints: env.Text("SLURM_JOB_CONSTRAINTS"),
			Licenses:    env.Text("SLURM_JOB_LICENSES"),
			JobStart:    env.Time("SLURM_JOB_START_TIME"),
			JobEndLimit: env.Time("SLURM_JOB_END_TIME"),
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

// setMemory sets the job's memory on this node. Slurm counts in MiB; 0 means all of it.
func setMemory(run *rt.Run, env Env) {
	perNode := env.Number("SLURM_MEM_PER_NODE")
	if i, ok := run.HetJobOffset.Get(); ok {
		perNode = env.Number(hetNames("SLURM_MEM_PER_NODE", i)...)
	}
	const most = 1 << 40 // MiB; keeps the product below within 64 bits
	per := func(amount, count rt.Opt[uint64]) uint64 {
		a, n := amount.Or(0), count.Or(0)
		if a > most || n > 1<<20 || a*n > most {
			return 0
		}
		return a * n
	}
	for _, mib := range [...]uint64{
		per(perNode, rt.Some[uint64](1)),
		per(env.Number("SLURM_MEM_PER_CPU"), run.AllocCPUs),
		per(env.Number("SLURM_MEM_PER_GPU"), env.Number("SLURM_GPUS_ON_NODE")),
	} {
		if mib != 0 {
			run.AllocMem.Set(mib << 20)
			return
		}
	}
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

// hetNames returns the names of a variable that a heterogeneous job has for each component.
func hetNames(name string, component uint64) []string {
	i := strconv.FormatUint(component, 10)
	return []string{name + "_HET_GROUP_" + i, name + "_PACK_GROUP_" + i}
}

// setHet sets the run's component from the environment of one of its tasks.
func setHet(run *rt.Run, env Env) {
	size := env.Number("SLURM_HET_SIZE", "SLURM_PACK_SIZE").Or(0)
	leader := env.Number(hetNames("SLURM_JOB_ID", 0)...)
	if size == 0 || !leader.Valid() {
		return
	}
	run.HetJobID = leader
	for i := range min(size, maxComponents) {
		if id := env.Number(hetNames("SLURM_JOB_ID", i)...); id.Valid() && id == run.JobID {
			run.HetJobOffset.Set(i)
			return
		}
	}
}

// setComponent makes the run that of its own component. A task's SLURM_JOB_ID is the leader's,
// and its lists are those of all components. The node identifies the component, unless two
// components share it.
func setComponent(run *rt.Run, env Env) {
	size := env.Number("SLURM_HET_SIZE", "SLURM_PACK_SIZE").Or(0)
	var here []uint64
	for i := range min(size, maxComponents) {
		hosts, err := ExpandHosts(env.Text(hetNames("SLURM_JOB_NODELIST", i)...))
		if err == nil && slices.Contains(hosts, run.Node) {
			here = append(here, i)
		}
	}
	if len(here) == 1 {
		i := here[0]
		if id := env.Number(hetNames("SLURM_JOB_ID", i)...); id.Valid() {
			run.JobID = id
		}
		for field, name := range map[*string]string{
			&run.Account: "SLURM_JOB_ACCOUNT", &run.Partition: "SLURM_JOB_PARTITION",
			&run.QOS: "SLURM_JOB_QOS", &run.NodeList: "SLURM_JOB_NODELIST",
		} {
			if v := env.Text(hetNames(name, i)...); v != "" {
				*field = v
			}
		}
		if n := env.Number(hetNames("SLURM_JOB_NUM_NODES", i)...); n.Valid() {
			run.NumNodes = n
		}
	}
	setHet(run, env)
}
