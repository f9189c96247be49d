package tracker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// StepLock is the lock on a step on this node: only one of the tasks of an srun tracks the step.
// The kernel releases the lock when the process exits.
type StepLock struct {
	file *os.File // nil for none
	lost bool     // another process has it
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
