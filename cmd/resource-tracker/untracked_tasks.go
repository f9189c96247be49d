package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
)

// noteOthers tells the ledger which tasks of our step on this node the record does not
// have, or not to their ends. They have become their commands because the turn is
// ours, and Slurm waits for our status: nobody reads on. A process that we left behind
// would be in the step's cgroup. Slurm kills it with the step, without a SIGTERM. With
// cgroup v1, 22.05 holds the step for a second to see it gone; one that ends by itself
// as soon as the last task has ended is in time for that in 12 to 15 steps of 20.
func (t *tracking) noteOthers(procfs string) {
	if t.turn.file == nil || t.job == nil {
		return
	}
	env := environ.NewEnv(os.Environ())
	here := environ.StepTasksHere(env)
	e := rt.Event{Time: time.Now(), Kind: "job", Name: "tasks"}
	others := 0
	if _, _, found := t.job.Found(); found {
		var told bool
		others, told = inTime(func() int { return runningOthers(procfs, t.job.Procs(nil), env, here) })
		if !told {
			e.Status = "failed"
			e.Detail = fmt.Sprintf("a process of the job did not answer within %s: whether other tasks of step %s on this node had ended when the tracked one did is not known",
				answerWait, t.run.Step)
			t.note(e)
			return
		}
		e.Status = "unseen"
		e.Detail = fmt.Sprintf("%s of step %s on this node had not ended when the tracked one did: what was used after that is not in the record",
			otherTasks(others), t.run.Step)
	} else {
		others = int(here.Or(1)) - 1
		e.Status = "absent"
		e.Detail = fmt.Sprintf("%s of step %s on this node not in the record: no cgroup was found that tells of them",
			otherTasks(others), t.run.Step)
	}
	if others > 0 {
		t.note(e)
	}
}

// answerWait is how long the command's status waits for the count of other tasks.
const answerWait = time.Second

// inTime counts, and is false where that takes too long: the kernel takes the lock of a
// process's memory for environ, and one that hangs on a dead file server may hold it for
// hours. The record is not to be given up for that.
func inTime(count func() int) (n int, told bool) {
	counted := make(chan int, 1)
	go func() {
		defer recovery.Handle(warn)
		counted <- count()
	}()
	select {
	case n = <-counted:
		return n, true
	case <-time.After(answerWait):
		return 0, false
	}
}

func otherTasks(n int) string {
	if n == 1 {
		return "1 other task"
	}
	return strconv.Itoa(n) + " other tasks"
}

// runningOthers counts the tasks of our step, but ours, that have one of the processes.
// They are our user's. Not every cgroup tells which task a process is of, but its
// environment does. here is how many tasks there are, where that is known.
func runningOthers(procfs string, pids []int, ours environ.Env, here rt.Opt[uint64]) int {
	seen := map[string]bool{ours["SLURM_LOCALID"]: true}
	for _, pid := range pids {
		if n, ok := here.Get(); ok && uint64(len(seen)) >= n {
			break
		}
		text, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "environ"))
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		if task, ok := taskOf(text, ours); ok {
			seen[task] = true
		}
	}
	return len(seen) - 1
}

// taskOf finds the task on this node in the environment of a process of our step.
func taskOf(text []byte, ours environ.Env) (task string, ok bool) {
	for entry := range bytes.SplitSeq(text, []byte{0}) {
		name, value, _ := bytes.Cut(entry, []byte("="))
		switch string(name) {
		case "SLURM_JOB_ID", "SLURM_STEP_ID":
			if string(value) != ours[string(name)] {
				return "", false
			}
		case "SLURM_LOCALID":
			task = string(value)
		}
	}
	return task, task != ""
}
