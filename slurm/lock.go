package slurm

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
		time.Sleep(time.Millisecond) // it is held for less; 64 jobs may begin at once
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
