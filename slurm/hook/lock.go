package hook

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// hookLock excludes other hooks: those of the same job on the same node, or all that write
// the breaker's file.
type hookLock struct{ file *os.File }

// lock locks the job, or fails at the deadline.
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

// awaitRelease waits until the lock at path is released, at most until the deadline. It
// waits in the kernel: when 64 jobs begin at once, hooks that poll would take the CPU from
// the holder. The file that it locks has been removed by its holder then.
func awaitRelease(path string, deadline time.Time) {
	f, err := os.Open(path)
	if err != nil {
		return // it has just been removed, or the next try fails too
	}
	released := make(chan struct{})
	go func() {
		defer func() {
			_ = recover() // a defect here only ends the wait
			close(released)
		}()
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH) // an error comes again at the next try
		_ = f.Close()                                   // opened for reading: nothing can be lost
	}()
	select {
	case <-released:
	case <-time.After(time.Until(deadline)):
	}
}

// tryLock returns nil and no error if another process holds the lock. The holder removes
// the file, so a lock counts only if the path still leads to the locked file.
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
	isHeld := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR)
	if err != nil && !isHeld {
		return nil, err
	}
	return nil, nil
}

// release removes the lock's file and releases the lock.
func (l *hookLock) release() error {
	return errors.Join(removeIfThere(l.file.Name()), l.file.Close())
}
