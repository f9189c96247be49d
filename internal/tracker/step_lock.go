package tracker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
)

// StepLock is the lock on a step on this node: only one of the tasks of an srun tracks the step.
// The kernel releases the lock when the process exits.
type StepLock struct {
	file *os.File // nil for none
	lost bool     // another process has it
}

// StepLockName returns the name of the lock file of a task's step. It is empty for a run that is
// not a task of srun: a batch script may run many commands at the same time, and each of them is
// tracked.
func StepLockName(run *rt.Run) string {
	if _, err := strconv.ParseUint(run.Step, 10, 32); err != nil {
		return ""
	}
	node := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, run.Node)
	return fmt.Sprintf("%d.%s@%s.turn", run.JobID.Or(0), run.Step, node)
}

// AcquireStepLock takes the lock with this name in dir. If another process has it, Lost of the
// result is true. If the file cannot be locked for another reason, Held and Lost are false.
func AcquireStepLock(dir, name string) StepLock {
	for range 10 { // the file is removed whenever a task that had the lock ends
		l, err := lockFile(filepath.Join(dir, name))
		if !errors.Is(err, errRemoved) {
			return l
		}
	}
	return StepLock{lost: true}
}

// errRemoved means that the lock file was removed before it was locked.
var errRemoved = errors.New("the lock file was removed")

func lockFile(path string) (StepLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return StepLock{}, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && !isNamed(f, path) {
		err = errRemoved
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return StepLock{lost: errors.Is(err, unix.EWOULDBLOCK)}, err
	}
	return StepLock{file: f}, nil
}

// isNamed reports whether path is still the name of the open file.
func isNamed(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}

// Held reports whether this process has the lock.
func (l StepLock) Held() bool { return l.file != nil }

// Lost reports whether another process has the lock.
func (l StepLock) Lost() bool { return l.lost }

// Close releases the lock.
func (l StepLock) Close() error {
	if l.file == nil {
		return nil
	}
	return errors.Join(os.Remove(l.file.Name()), l.file.Close())
}

// StepCgroup lists the processes of a job. cgroup.Job implements it.
type StepCgroup interface {
	Found() (layout, path string, ok bool)
	Procs(dst []int) []int
}

// NoteUntrackedTasks calls note with an event if the record lacks other tasks of our step on
// this node, or the ends of such tasks. env is our environment.
//
// This process has the step's lock, so the resource-tracker of each other task has replaced itself
// by its command (execve(2)). When this process exits, no process records the other tasks any more.
// This process does not wait for them, because Slurm waits for the exit status of this process.
//
// Leaving a process behind to record them does not work. It would be in the step's cgroup, and
// Slurm kills it with the step, without a SIGTERM. With cgroup v1, Slurm 22.05 then holds the
// step for a second until the process is gone. If the process exits as soon as the last task has
// ended, only 12 to 15 of 20 steps avoid this delay.
func NoteUntrackedTasks(job StepCgroup, procfs string, env environ.Env, step string, note func(rt.Event)) {
	here := environ.StepTasksHere(env)
	e := rt.Event{Time: time.Now(), Kind: "job", Name: "tasks"}
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

// countInTime returns an error if count panics or takes too long. To read /proc/<pid>/environ, the
// kernel takes the lock of the process's memory map. If a file server is dead, that lock may be held
// for hours.
func countInTime(count func() int) (int, error) {
	counted, failed := make(chan int, 1), make(chan error, 1)
	go func() {
		defer recovery.Handle(func(err error) { failed <- err })
		counted <- count()
	}()
	select {
	case n := <-counted:
		return n, nil
	case err := <-failed:
		return 0, err
	case <-time.After(countWithin):
		return 0, fmt.Errorf("a process of the job did not answer within %s", countWithin)
	}
}

func otherTasks(n int) string {
	if n == 1 {
		return "1 other task"
	}
	return strconv.Itoa(n) + " other tasks"
}

// runningTasks counts the other tasks of our step to which at least one of pids belongs. It reads
// the task from the environment of each process, because not every cgroup layout shows the task.
// here is the number of all tasks of the step on this node, if it is known.
func runningTasks(procfs string, pids []int, ours environ.Env, here rt.Opt[uint64]) int {
	seen := map[string]bool{ours["SLURM_LOCALID"]: true}
	for _, pid := range pids {
		if n, ok := here.Get(); ok && uint64(len(seen)) >= n {
			break
		}
		text, err := environ.ReadProcess(procfs, pid, nil)
		if err != nil {
			continue // it has ended, or is another user's
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
