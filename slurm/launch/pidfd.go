package launch

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// foreign is a process that is not our child. Signals to its pidfd (Linux 5.3) reach no other
// process; on older kernels only the comparison of start times prevents that.
type foreign struct {
	process  *os.Process
	procRoot string
	start    uint64
}

// findProcess returns os.ErrProcessDone if the process has ended.
func findProcess(procRoot string, pid int, start uint64) (*foreign, error) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("cannot find process %d: %w", pid, err)
	}
	// Open first, then compare: from then on the handle is for this process.
	if !procfile.Alive(procRoot, pid, start) {
		return nil, errors.Join(os.ErrProcessDone, p.Release())
	}
	return &foreign{p, procRoot, start}, nil
}

// stop sends the signal of StateFile.stopSignal.
func (f *foreign) stop(signal syscall.Signal) error { return f.process.Signal(signal) }

func (f *foreign) close() error { return f.process.Release() }

// waitGone waits until the process has ended, and is false at the deadline.
func (f *foreign) waitGone(deadline time.Time) bool {
	var polled error
	err := f.process.WithHandle(func(pidfd uintptr) { polled = pollIn(pidfd, deadline) })
	if err == nil && polled == nil {
		return true
	}
	// This kernel has no pidfd, or the deadline has passed: check /proc.
	for procfile.Alive(f.procRoot, f.process.Pid, f.start) {
		if !time.Now().Before(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// pollIn waits until a pidfd's process has ended, or returns os.ErrDeadlineExceeded.
func pollIn(fd uintptr, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		wait := unix.NsecToTimespec(int64(left))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &wait, nil)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("ppoll", err)
		}
	}
}
