// Package poll waits for descriptors on the calling thread, as poll(2) does.
package poll

import (
	"time"

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
// With a version of Go newer than 1.26, Wait is unix.Ppoll.
func Wait(fds []unix.PollFd, timeout time.Duration) (int, error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		t := unix.NsecToTimespec(timeout.Nanoseconds())
		limit = &t
	}
	return ppoll(fds, limit)
}
