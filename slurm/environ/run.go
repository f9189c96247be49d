package environ

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// ErrNoJob says that an environment is not that of a Slurm job or hook.
var ErrNoJob = errors.New("SLURM_JOB_ID is not set")

// FromHook makes the Run of a Prolog or Epilog, on the node or beside slurmctld,
// from the environment that Slurm gives it; now is when tracking begins. The
// names of users' groups are not in the environment of the node's hooks: the caller
// sets Run.Group and then calls slurm.Describe. It fails with ErrNoJob outside a hook.
//
// On the node the job's name, its array ids and its QOS are missing, in most
// versions also its times: they come late, see MergeTaskEnv. Beside slurmctld
// Run.Node is empty.
func FromHook(env Env, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is no Slurm Prolog or Epilog: %w", err)
	}
	if devices := env.Text("CUDA_VISIBLE_DEVICES"); nameGPUs(devices) {
		run.GPUs = devices
	}
	run.Attempt = env.Number("SLURM_JOB_RESTART_COUNT").Or(0)
	run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	run.HetJobID = env.Number("SLURM_HET_JOB_ID", "SLURM_PACK_JOB_ID")
	run.HetJobOffset = env.Number("SLURM_HET_JOB_OFFSET", "SLURM_PACK_JOB_OFFSET")
	if strings.HasPrefix(env.Text("SLURM_SCRIPT_CONTEXT"), "epilog") {
		run.JobEndLimit = time.Time{} // there the variable says when the job ended
	}
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	return run, nil
}

// FromTask makes the Run of a process inside a job from its own environment: a
// step's task, the batch script, or a shell that salloc started. now is when
// tracking begins. Run.Node is empty where Slurm does not name the node (a shell
// of salloc on a login node); HOSTNAME does not tell, it is the submit host's in
// some tasks. It fails with ErrNoJob outside a job.
func FromTask(env Env, now time.Time) (rt.Run, error) {
	run, err := base(env, now)
	if err != nil {
		return rt.Run{}, fmt.Errorf("this is no process of a Slurm job: %w", err)
	}
	run.Attempt = env.Number("SLURM_RESTART_COUNT").Or(0)
	run.Step = stepOf(env, run.Node)
	setComponent(&run, env)
	if run.AllocCPUs = env.Number("SLURM_CPUS_ON_NODE"); !run.AllocCPUs.Valid() {
		run.AllocCPUs = cpusOn(env.Text("SLURM_JOB_CPUS_PER_NODE"), run.NodeList, run.Node)
	}
	setMemory(&run, env)
	run.StepTasks = env.Number("SLURM_STEP_NUM_TASKS")
	if run.GPUs == "" {
		run.GPUs = env.Text("SLURM_STEP_GPUS")
	}
	if run.WorkDir == "" {
		run.WorkDir = env.Text("SLURM_SUBMIT_DIR")
	}
	slurm.SetJobName(&run, env.Text("SLURM_JOB_NAME"), true)
	slurm.Describe(&run)
	run.Meta.Merge(userMetadata(env, slurm.MaxValue))
	return run, nil
}

// nameGPUs says whether a list of devices has their UUIDs alone. Slurm gives these for
// instances of divided GPUs (MIG), which its numbers count in an order of their own.
// A hook's list is the job's; that of a task may be of some of its devices.
func nameGPUs(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if !strings.HasPrefix(name, "MIG-") && !strings.HasPrefix(name, "GPU-") {
			return false
		}
	}
	return true
}

// base reads what hooks and tasks have in common.
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

// stepOf names the step of a task. Slurm numbers its special steps from the top
// of 32 bits. The batch script's environment has no step id.
func stepOf(env Env, node string) string {
	switch id := env.Text("SLURM_STEP_ID", "SLURM_STEPID"); id {
	case "4294967290":
		return "interactive"
	case "4294967291":
		return "batch"
	case "4294967292":
		return "extern"
	case "":
		if node != "" {
			return "batch"
		}
		return ""
	default:
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return ""
		}
		return id
	}
}

// setMemory finds the memory that the job may use on this node. Slurm counts in
// MiB; 0 means all of the node's, which the environment does not know.
func setMemory(run *rt.Run, env Env) {
	perNode := env.Number("SLURM_MEM_PER_NODE")
	if i, ok := run.HetJobOffset.Get(); ok {
		perNode = hetNumber(env, "SLURM_MEM_PER_NODE", i)
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

// sluid returns the job's SLUID if it has the form of one: it is the name of a directory.
func sluid(env Env) string {
	if s := env.Text("SLURM_JOB_SLUID"); slurm.IsSLUID(s) {
		return s
	}
	return ""
}
