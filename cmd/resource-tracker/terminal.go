package main

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is our controlling terminal. We keep the foreground, so that the other
// commands of a pipeline have it too, until our command asks for it by being
// stopped when it reads the terminal.
type terminal struct {
	f   *os.File
	own int // our process group
}

// openTerminal returns nil where there is none. It must be called after the
// command was started, because it changes what a command inherits.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	signal.Ignore(syscall.SIGTTOU) // it would stop us when we take the foreground back
	return &terminal{f: f, own: unix.Getpgrp()}
}

// foreground is the process group that the terminal's keys go to; 0 when unknown.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

func (t *terminal) give(group int) {
	_ = unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, group) // it fails when the group or the terminal is gone
}

// takeBack ends the command's time in the foreground.
func (t *terminal) takeBack(group int) {
	if t.foreground() == group {
		t.give(t.own)
	}
}

// stopped is what happens when the command was stopped. If it only wants the
// terminal, it gets it. Else somebody pressed Ctrl-Z: we stop too, so that the
// shell sees it, and go on together with the command when the shell says so. A
// command stopped by SIGSTOP is left to whoever did that.
func (t *terminal) stopped(c *child, s syscall.Signal) {
	if s == syscall.SIGSTOP {
		return
	}
	wants := s == syscall.SIGTTIN || s == syscall.SIGTTOU
	if !wants || t.foreground() != t.own {
		wants = wants || t.foreground() == c.pid
		t.takeBack(c.pid)
		stopSelf()
	}
	if wants && t.foreground() == t.own {
		t.give(c.pid)
	}
	c.signal(syscall.SIGCONT)
}

// stopSelf stops this process and returns when it is continued. The signal goes to
// this very thread: one to the process may take effect on another thread, and
// later than the next statement here.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGSTOP) // SIGSTOP to oneself cannot fail
}
