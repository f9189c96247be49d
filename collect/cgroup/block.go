package cgroup

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pollForLong is poll(2) for a wait that is likely to be long. It tells the runtime
// so, which package syscall cannot: that expects each call to return at once, and to
// see whether it does the runtime's monitor wakes up some 60 times in the following
// 10 ms. After a reading that is more work than the reading itself.
//
// The two functions of the runtime are those that gVisor waits with as well; their
// signatures are kept for such programs (go.dev/issue/67401).
//
//go:nosplit
//go:norace
func pollForLong(fds *unix.PollFd, n uintptr, timeout *unix.Timespec) (ready int, err syscall.Errno) {
	entersyscallblock()
	r, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(fds)), n, uintptr(unsafe.Pointer(timeout)), 0, 0, 0)
	exitsyscall()
	return int(r), errno
}

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
