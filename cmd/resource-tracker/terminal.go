package main

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is our controlling terminal. We keep the foreground, which the other commands of a
// pipeline need too, until our command is stopped because it reads the terminal.
type terminal struct {
	f   *os.File
	own int // our process group
}

// openTerminal returns nil for none. It changes what a command inherits: start comes before.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	signal.Ignore(syscall.SIGTTOU) // it would stop us when we take the foreground back
	return &terminal{f: f, own: unix.Getpgrp()}
}

// foreground is the terminal's foreground process group; 0 when unknown.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// setForeground makes a process group the foreground.
func (t *terminal) setForeground(group int) {
	_ = unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, group) // it fails when the group or the terminal is gone
}

// takeBack makes our process group the foreground again.
func (t *terminal) takeBack(group int) {
	if t.foreground() == group {
		t.setForeground(t.own)
	}
}

// stopped handles a stopped command. One that reads or writes the terminal in the background
// gets the foreground. After Ctrl-Z we stop too, for the shell, and continue with the command
// when the shell continues us. A command that SIGSTOP has stopped stays stopped.
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
		t.setForeground(c.pid)
	}
	c.signal(syscall.SIGCONT)
}

// stopSelf stops this process and returns when it is continued. The signal is sent to this
// thread: a signal to the process may take effect on another thread, after the next statement
// here.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGSTOP) // SIGSTOP to oneself cannot fail
}
