package tracker

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
)

// StepLock is the lock on a step on this node: only one of the tasks of an srun tracks the step.
// The kernel releases the lock when the process exits.
type StepLock struct {
	lock *file.Lock // nil for none
	lost bool       // another process has it
}

// StepLockName returns the name of the lock file of a task's step. The suffix differs from the
// suffix of a run's lock, because rt-spool gc removes such a lock without a run. The name is empty
// for a run that is not a task of srun. A batch script may run many commands at the same time, and
// each is tracked.
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
	return fmt.Sprintf("%d.%s@%s.step-lock", run.JobID.Or(0), run.Step, node)
}

// AcquireStepLock takes the lock with this name in dir. If another process has it, Lost of the
// result is true. If the file cannot be locked for another reason, Held and Lost are false.
func AcquireStepLock(dir, name string) StepLock {
	lock, err := file.TryLock(filepath.Join(dir, name))
	return StepLock{lock: lock, lost: lock == nil && err == nil}
}

// Held reports whether this process has the lock.
func (l StepLock) Held() bool { return l.lock != nil }

// Lost reports whether another process has the lock.
func (l StepLock) Lost() bool { return l.lost }

// Close releases the lock.
func (l StepLock) Close() error {
	if l.lock == nil {
		return nil
	}
	return l.lock.Release()
}
