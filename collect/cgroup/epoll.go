package cgroup

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// epoll waits for descriptors: the ends of processes and the kernel's eventfds.
type epoll struct {
	fd     int // -1 if there is none
	events [32]unix.EpollEvent
}

// newEpoll returns an epoll, to which nothing can be added if the kernel refuses one.
func newEpoll() *epoll {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		fd = -1
	}
	return &epoll{fd: fd}
}

// FD is the descriptor to wait for, -1 if there is none.
func (e *epoll) FD() int { return e.fd }

// Add waits for fd to be readable.
func (e *epoll) Add(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("wait for a descriptor: epoll_ctl: %w", err)
	}
	return nil
}

// Remove no longer waits for fd.
func (e *epoll) Remove(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Ready calls f for each descriptor that is readable now.
func (e *epoll) Ready(f func(fd int)) {
	if e.fd < 0 {
		return
	}
	n, _ := unix.EpollWait(e.fd, e.events[:], 0) // interrupted: they are readable the next time too
	for _, event := range e.events[:max(n, 0)] {
		f(int(event.Fd))
	}
}

// Close closes the descriptor.
func (e *epoll) Close() {
	if e.fd >= 0 {
		_ = unix.Close(e.fd)
	}
	e.fd = -1
}
