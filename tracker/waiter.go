package tracker

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/poll"
)

// Waiter is a collect.Waiter that waits in the kernel, on the thread of the calling goroutine. A timer
// of the runtime wakes another thread, which then wakes the one of the goroutine. Its descriptor stays
// open as long as the process, because Wake may be called at any time.
type Waiter struct {
	fds   [1]unix.PollFd // an eventfd; here so that Wait allocates nothing
	count [8]byte        // of the eventfd
}

// NewWaiter returns a Waiter.
func NewWaiter() (*Waiter, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("wait for the next reading: eventfd: %w", err)
	}
	return &Waiter{fds: [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}}, nil
}

// Wait implements collect.Waiter. Only one goroutine may call it.
func (w *Waiter) Wait(until time.Time) {
	for {
		n, err := poll.Wait(w.fds[:], max(0, time.Until(until)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil { // ppoll is not permitted: look again in a second at most
			time.Sleep(min(time.Until(until), time.Second))
			return
		}
		if n > 0 {
			_, _ = unix.Read(int(w.fds[0].Fd), w.count[:]) // resets it
		}
		return
	}
}

// oneEvent is what wakes an eventfd.
var oneEvent = [8]byte{1}

// Wake implements collect.Waiter.
func (w *Waiter) Wake() {
	_, _ = unix.Write(int(w.fds[0].Fd), oneEvent[:]) // it fails only if 2^64-2 calls are pending
}
