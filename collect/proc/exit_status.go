package proc

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// ExitStatus holds a pidfd of a process that is no child, to read its exit status.
type ExitStatus struct {
	pidfd int
}

// NewExitStatus opens a pidfd of a process (pidfd_open(2), Linux 5.3).
func NewExitStatus(pid int) (*ExitStatus, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("open a pidfd of process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	return &ExitStatus{pidfd: fd}, nil
}

// pidfdInfo is struct pidfd_info of linux/pidfd.h in its first version, 64 bytes.
type pidfdInfo struct {
	mask, cgroupID           uint64
	pid, tgid, ppid          uint32
	ruid, rgid, euid, egid   uint32
	suid, sgid, fsuid, fsgid uint32
	exitCode                 int32
}

const (
	pidfdGetInfo  = 0xC040FF0B // _IOWR(0xFF, 11, 64 bytes)
	pidfdInfoExit = 1 << 3     // since Linux 6.15
)

// Status returns the exit status of the process, once its parent has waited for it. It is
// absent before that, and on kernels before 6.15, which do not keep it.
func (e *ExitStatus) Status() rt.Opt[syscall.WaitStatus] {
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(e.pidfd), pidfdGetInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return rt.None[syscall.WaitStatus]()
	}
	return rt.Some(syscall.WaitStatus(info.exitCode))
}

// Close closes the pidfd.
func (e *ExitStatus) Close() error { return unix.Close(e.pidfd) }
