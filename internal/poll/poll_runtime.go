//go:build !go1.27

package poll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ppoll(fds []unix.PollFd, timeout *unix.Timespec) (int, error) {
	var first *unix.PollFd
	if len(fds) > 0 {
		first = &fds[0]
	}
	n, errno := blockingPpoll(first, len(fds), timeout)
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

// blockingPpoll calls nothing that could grow the stack or be preempted between the two calls of the runtime.
//
//go:nosplit
//go:norace
func blockingPpoll(fds *unix.PollFd, n int, timeout *unix.Timespec) (int, syscall.Errno) {
	entersyscallblock()
	ready, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(fds)), uintptr(n), uintptr(unsafe.Pointer(timeout)), 0, 0, 0)
	exitsyscall()
	return int(ready), errno
}

// entersyscallblock marks the goroutine as blocked in a system call and gives its processor back.
// The runtime exports it for such uses, see go.dev/issue/67401.
//
//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

// exitsyscall waits for a processor after entersyscallblock.
//
//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
