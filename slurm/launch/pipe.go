package launch

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/poll"
)

// pipeEnd is an end of a pipe between the Prolog and its tracker. It is not an os.File: the Go runtime adds each end to
// its epoll(7), and the thread that waits there wakes up each time, which takes a thirtieth of a Prolog's time.
type pipeEnd struct {
	fd       int
	deadline time.Time // of Read
}

// newPipe makes a pipe, with close-on-exec.
func newPipe() (reader, writer *pipeEnd, err error) {
	var fds [2]int
	err = syscall.Pipe2(fds[:], syscall.O_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	return &pipeEnd{fd: fds[0]}, &pipeEnd{fd: fds[1]}, nil
}

// Close closes the end; it does nothing the second time.
func (p *pipeEnd) Close() {
	if p.fd >= 0 {
		_ = syscall.Close(p.fd) // a pipe has nothing to lose
		p.fd = -1
	}
}

// Read waits until the deadline, and then returns os.ErrDeadlineExceeded.
func (p *pipeEnd) Read(b []byte) (int, error) {
	err := p.wait(unix.POLLIN, p.deadline)
	if err != nil {
		return 0, err
	}
	n, err := syscall.Read(p.fd, b)
	switch {
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// write writes the text. What the pipe takes at once, nearly always all, it writes even after the deadline, because on a
// busy node exec alone can take that long, and the Prolog does not stop a slow tracker.
func (p *pipeEnd) write(text []byte, deadline time.Time) error {
	err := syscall.SetNonblock(p.fd, true)
	for err == nil && len(text) > 0 {
		var n int
		n, err = syscall.Write(p.fd, text)
		text = text[max(n, 0):]
		if errors.Is(err, syscall.EAGAIN) {
			err = p.wait(unix.POLLOUT, deadline)
		}
	}
	return err
}

// wait waits until the pipe has an event, or until the deadline.
func (p *pipeEnd) wait(event int16, deadline time.Time) error {
	for {
		left := max(time.Until(deadline), 0)
		n, err := poll.Wait([]unix.PollFd{{Fd: int32(p.fd), Events: event}}, left)
		isInterrupted := errors.Is(err, syscall.EINTR)
		switch {
		case n > 0:
			return nil
		case err != nil && !isInterrupted:
			return os.NewSyscallError("ppoll", err)
		case left == 0:
			return os.ErrDeadlineExceeded
		}
	}
}
