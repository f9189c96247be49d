package tracker

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
)

// StepCgroup lists the processes of a job. cgroup.Job implements it.
type StepCgroup interface {
	Found() (layout, path string, ok bool)
	Procs(dst []int) []int
}

// NoteUntrackedTasks calls note with an event if the record lacks other tasks of our step on this
// node, or the ends of such tasks. env is our environment.
//
// This process has the step's lock and records the step on this node. In the other tasks
// resource-tracker has replaced itself by the command. This process exits with the status of its
// own command, because Slurm waits for it. Nothing records the other tasks after that.
//
// A process that stays behind and records them does not work. It would be in the step's cgroup, and
// Slurm kills it with the step, without a SIGTERM. With cgroup v1, Slurm 22.05 then needs a second
// to end the step. A process that exits as soon as the last task has ended avoids this second in
// only 12 to 15 of 20 steps.
func NoteUntrackedTasks(job StepCgroup, procfs string, env environ.Env, step string, note func(rt.Event)) {
	here := environ.StepTasksHere(env)
	e := rt.Event{Kind: "job", Name: "tasks"}
	if _, _, found := job.Found(); !found {
		if n := int(here.Or(1)) - 1; n > 0 {
			e.Status = "absent"
			e.Detail = fmt.Sprintf("%s of step %s on this node not in the record: no cgroup was found that has them", otherTasks(n), step)
			note(e)
		}
		return
	}
	n, err := countInTime(func() int { return runningTasks(procfs, job.Procs(nil), env, here) })
	switch {
	case err != nil:
		e.Status = "failed"
		e.Detail = fmt.Sprintf("%v: whether other tasks of step %s on this node had ended when the tracked one did is not known", err, step)
	case n > 0:
		e.Status = "unseen"
		e.Detail = fmt.Sprintf("%s of step %s on this node had not ended when the tracked one did: what was used after that is not in the record", otherTasks(n), step)
	default:
		return
	}
	note(e)
}

// countWithin limits the time to count the other tasks, which delays the command's status.
const countWithin = time.Second

// countInTime returns an error if count panics or takes too long. The kernel takes the memory lock
// of a process to read its environ. A file server that does not respond can block that lock for
// hours.
func countInTime(count func() int) (int, error) {
	counted := make(chan int, 1)
	err := recovery.AtMost(countWithin, func() error { counted <- count(); return nil })
	switch {
	case errors.Is(err, recovery.ErrLate):
		return 0, fmt.Errorf("a process of the job did not answer within %s", countWithin)
	case err != nil:
		return 0, err
	}
	return <-counted, nil
}

func otherTasks(n int) string {
	if n == 1 {
		return "1 other task"
	}
	return strconv.Itoa(n) + " other tasks"
}

// runningTasks counts the other tasks of our step that have at least one of the processes pids. It
// reads the task from the environment of each process, because not every cgroup layout shows the
// task. here is the number of all tasks of the step on this node, if it is known.
func runningTasks(procfs string, pids []int, ours environ.Env, here rt.Opt[uint64]) int {
	seen := map[string]bool{ours["SLURM_LOCALID"]: true}
	for _, pid := range pids {
		if n, ok := here.Get(); ok && uint64(len(seen)) >= n {
			break
		}
		text, err := environ.ReadProcess(procfs, pid, nil)
		if err != nil {
			continue // the process has ended, or belongs to another user
		}
		if task, ok := taskOf(environ.Parse(text), ours); ok {
			seen[task] = true
		}
	}
	return len(seen) - 1
}

// taskOf returns the task id on this node (SLURM_LOCALID) of a process with the environment env.
// ok is false if the process is not in our step.
func taskOf(env, ours environ.Env) (task string, ok bool) {
	isOurStep := env["SLURM_JOB_ID"] == ours["SLURM_JOB_ID"] && env["SLURM_STEP_ID"] == ours["SLURM_STEP_ID"]
	task = env["SLURM_LOCALID"]
	return task, isOurStep && task != ""
}
