package hook

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// hookLock keeps two hooks apart: those of the same job on the same node, or any
// two that write the breaker's file.
type hookLock struct{ file *os.File }

// lock takes the job's lock, at the latest at the deadline.
func (s State) lock(job uint64, node string, deadline time.Time) (*hookLock, error) {
	return lockPath(s.path(job, node, "lock"), deadline)
}

func lockPath(path string, deadline time.Time) (*hookLock, error) {
	for {
		l, err := tryLock(path)
		if l != nil {
			return l, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("cannot lock %s: another hook holds it", path)
		}
		awaitRelease(path, deadline)
	}
}

// awaitRelease waits until the lock that is held at path is let go of, at the latest
// until the deadline. It waits in the kernel: when 64 jobs begin at once, hooks that ask
// again and again would take the CPU from the one that has it. What it shares is a file
// that its holder has removed by then.
func awaitRelease(path string, deadline time.Time) {
	f, err := os.Open(path)
	if err != nil {
		return // it has just been removed, or the next try tells
	}
	released := make(chan struct{})
	go func() {
		defer func() {
			_ = recover() // a defect here ends the wait and nothing else
			close(released)
		}()
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH) // whatever it says, the next try tells
		_ = f.Close()                                   // opened for reading: nothing can be lost
	}()
	select {
	case <-released:
	case <-time.After(time.Until(deadline)):
	}
}

// tryLock returns nil and no error when the lock is held by another. A lock's
// file is removed while it is held, so one that was taken counts only while the
// path still leads to it.
func tryLock(path string) (*hookLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &hookLock{f}, nil
		}
	}
	if closed := f.Close(); closed != nil {
		return nil, closed
	}
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
		return nil, err
	}
	return nil, nil
}

// release lets go of the lock and removes its file.
func (l *hookLock) release() error {
	return errors.Join(removeIfThere(l.file.Name()), l.file.Close())
}
