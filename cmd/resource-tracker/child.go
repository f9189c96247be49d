package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/recovery"
)

// child is the command that we run. It leads a process group of its own, so that no process gets a
// signal twice. We forward our group's signals, for example Ctrl-C until the command has the
// terminal.
type child struct {
	pid      int
	ownPeak  int64     // the largest resident set of this process when it started the command, KiB
	terminal *terminal // nil for none
	signals  chan os.Signal

	mu     sync.Mutex
	reaped bool // pid may be another process's
	status unix.WaitStatus
	used   unix.Rusage    // by the command and the descendants that it waited for
	sent   syscall.Signal // the last signal that was forwarded
}

// forwarded are the signals that are sent to the command, see notIgnored.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGTSTP, syscall.SIGWINCH,
}

// start runs the command. The error is errNotFound or errNotExecutable.
func start(argv []string) (*child, error) {
	path, err := look(argv[0])
	if err != nil {
		return nil, err
	}
	c := &child{signals: make(chan os.Signal, 16)}
	signal.Notify(c.signals, notIgnored(forwarded...)...)
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	c.pid, _, err = syscall.StartProcess(path, argv, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script without "#!": as execvp(3) does
		c.pid, _, err = syscall.StartProcess("/bin/sh", append([]string{"sh", path}, argv[1:]...), attr)
	}
	if err != nil {
		return nil, notExecutable(argv[0], err)
	}
	c.ownPeak = peakResident()
	c.terminal = openTerminal()
	go c.forward()
	return c, nil
}

// peakResident returns the largest resident set of this process so far, in KiB; 0 if it is not known.
func peakResident() int64 {
	var own unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
		return 0
	}
	return own.Maxrss
}

// execCommand replaces this process by the command. It returns only when that fails.
func execCommand(argv []string) error {
	path, err := look(argv[0])
	if err != nil {
		return err
	}
	err = syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // as in start
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), os.Environ())
	}
	return notExecutable(argv[0], err)
}

// look finds the command as a shell does.
func look(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot):
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return "", errkind.With(errNotFound, fmt.Errorf("%s: command not found", name))
	}
	if cause, ok := errors.AsType[*exec.Error](err); ok {
		err = cause.Err
	}
	return "", notExecutable(name, err)
}

func notExecutable(name string, err error) error {
	return errkind.With(errNotExecutable, fmt.Errorf("%s: cannot be executed: %w", name, err))
}

func (c *child) forward() {
	defer recovery.Handle(warn)
	for s := range c.signals {
		n := s.(syscall.Signal)
		c.mu.Lock()
		c.sent = n
		c.mu.Unlock()
		c.signal(n)
	}
}

// signal sends a signal to the command's process group.
func (c *child) signal(s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.pid, s) // it fails when all of it has ended
	}
}

// wait returns when the command has ended. Its counters can be read until reap.
func (c *child) wait() {
	const stopped = 5 // CLD_STOPPED, asm-generic/siginfo.h
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || info.Code != stopped {
			break
		}
		if s, ok := c.stopSignal(); ok && c.terminal != nil {
			c.terminal.stopped(c, s)
		}
	}
	if c.terminal != nil {
		c.terminal.takeBack(c.pid)
	}
}

// stopSignal returns the signal that stopped the command. It may have ended since.
func (c *child) stopSignal() (syscall.Signal, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(c.pid, &status, unix.WUNTRACED|unix.WNOHANG, &c.used)
	switch {
	case err != nil || pid != c.pid:
		return 0, false
	case !status.Stopped():
		c.reaped, c.status = true, status
		return 0, false
	}
	return status.StopSignal(), true
}

// reap ends the wait for the command; signalled is the last forwarded signal, 0 for none.
func (c *child) reap() (status unix.WaitStatus, used unix.Rusage, signalled syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.reaped {
		if _, err := unix.Wait4(c.pid, &c.status, 0, &c.used); !errors.Is(err, unix.EINTR) {
			c.reaped = true
		}
	}
	signal.Stop(c.signals)
	return c.status, c.used, c.sent
}

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

// stopped gives the foreground to a command that stopped because it uses the terminal. After
// Ctrl-Z we stop and continue with the command. One that SIGSTOP has stopped stays stopped.
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

// stopSelf stops this process until it is continued. It signals this thread: a signal to the
// process may take effect on another thread, after the next statement here.
func stopSelf() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.SIGSTOP) // SIGSTOP to oneself cannot fail
}
