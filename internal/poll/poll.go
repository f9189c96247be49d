// Package poll waits for descriptors on the calling thread, as poll(2) does.
package poll

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Forever is the timeout of a wait without a limit.
const Forever = time.Duration(-1)

// Wait waits until a descriptor of fds is ready, but not longer than timeout, and returns the number
// of ready descriptors. Descriptors below zero are ignored. A signal ends the wait with EINTR.
//
// Wait differs from unix.Ppoll in what the other goroutines can use meanwhile: it gives the
// processor of the Go scheduler back before it waits. In unix.Ppoll the thread keeps it, and the
// monitor thread of the runtime wakes some 40 times in 10 ms until it takes the processor away.
func Wait(fds []unix.PollFd, timeout time.Duration) (int, error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		limit = &t
	}
	var first *unix.PollFd
	if len(fds) > 0 {
		first = &fds[0]
	}
	n, errno := ppoll(first, len(fds), limit)
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}

// ppoll calls nothing that could grow the stack or be preempted between the two calls of the runtime.
//
//go:nosplit
//go:norace
func ppoll(fds *unix.PollFd, n int, timeout *unix.Timespec) (int, syscall.Errno) {
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
