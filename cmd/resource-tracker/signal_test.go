package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/e2e/await"
)

// session is the program under test with what it prints.
type session struct {
	t     *testing.T
	cmd   *exec.Cmd
	keys  *os.File // the master side of its terminal, nil without one
	lines chan string
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("resource-tracker", args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLURM_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GORACE="+noRaceWait)
	cmd.Dir = t.TempDir()
	return cmd
}

// piped starts the program without a terminal.
func piped(t *testing.T, args ...string) *session {
	t.Helper()
	cmd := command(t, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	return begin(t, cmd, out, nil)
}

// onTerminal starts the program in the foreground of a terminal of its own.
func onTerminal(t *testing.T, cmd *exec.Cmd) *session {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return begin(t, cmd, master, master)
}

func begin(t *testing.T, cmd *exec.Cmd, out io.Reader, keys *os.File) *session {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: cmd, keys: keys, lines: make(chan string, 100)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- strings.TrimRight(lines.Text(), "\r")
		}
	}()
	return s
}

// expect reads up to a line with want and returns it.
func (s *session) expect(want string) string {
	s.t.Helper()
	var seen []string
	timeout := time.After(await.Limit)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the output ended without %q: %q", want, seen)
			}
			if strings.Contains(line, want) { // the terminal echoes keys before it
				return line
			}
			seen = append(seen, line)
		case <-timeout:
			s.t.Fatalf("no %q came: %q", want, seen)
		}
	}
}

func (s *session) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) send(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// rest is what is still printed, and the status.
func (s *session) rest() (lines []string, status int) {
	s.t.Helper()
	for line := range s.lines {
		lines = append(lines, line)
	}
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return lines, s.cmd.ProcessState.ExitCode()
}

// Ctrl-C reaches the command once, though the terminal sends it to a whole
// process group and the wrapper passes it on.
func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	s := onTerminal(t, command(t, "-q", "count-signals", "5"))
	s.expect("ready")
	s.press("\x03")
	s.expect("got interrupt")
	s.send(syscall.SIGUSR1)
	lines, status := s.rest()
	for _, line := range lines {
		if strings.Contains(line, "interrupt") {
			t.Errorf("once more: %q", lines)
		}
	}
	if status != 5 {
		t.Errorf("status %d", status)
	}
}

// A command that reads the terminal gets it, and then its Ctrl-C too, once.
func TestCommandCanReadTheTerminal(t *testing.T) {
	s := onTerminal(t, command(t, "-q", "sh", "-c", `echo ask; read answer; echo "heard $answer"; exec count-signals 6`))
	s.expect("ask")
	s.press("blue\n")
	s.expect("heard blue")
	s.expect("ready")
	s.press("\x03")
	s.expect("got interrupt")
	s.send(syscall.SIGUSR1)
	lines, status := s.rest()
	if strings.Contains(strings.Join(lines, " "), "interrupt") || status != 6 {
		t.Errorf("%q, status %d", lines, status)
	}
}

// Ctrl-Z stops the command and the wrapper, so that the shell sees it; when the
// shell continues the wrapper, the command goes on as well.
func TestCtrlZStopsBoth(t *testing.T) {
	cmd := command(t)
	// A shell with job control, which says when its job stops and continues it.
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `set -m; resource-tracker -q count-signals 7; echo "stopped $?"; fg; echo "status $?"`}
	s := onTerminal(t, cmd)
	s.expect("ready")
	s.press("\x1a")
	s.expect("stopped")
	wrapper := childOf(t, s.cmd.Process.Pid)
	s.expect("got continued") // fg has given the terminal to the wrapper
	s.press("\x03")
	s.expect("got interrupt")
	if err := unix.Kill(wrapper, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	s.expect("got user defined signal 1")
	s.expect("status 7")
}

// The same while the command has the terminal: it gets it back, once continued.
func TestCtrlZWhileTheCommandReads(t *testing.T) {
	cmd := command(t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `set -m; resource-tracker -q ask; echo "stopped $?"; fg; echo "status $?"`}
	s := onTerminal(t, cmd)
	s.expect("ask")
	s.expect("continued") // it stopped because it reads, and has the terminal now
	reader := childOf(t, childOf(t, s.cmd.Process.Pid))
	s.inForeground(reader)
	s.press("\x1a")
	s.expect("stopped")
	s.expect("continued")
	s.inForeground(reader)
	s.press("blue\n")
	s.expect("heard blue")
	s.expect("status 7")
}

// inForeground fails the test if the terminal's keys go to another process group.
func (s *session) inForeground(group int) {
	s.t.Helper()
	if g, err := unix.IoctlGetInt(int(s.keys.Fd()), unix.TIOCGPGRP); err != nil || g != group {
		s.t.Errorf("process group %d is in the foreground, want %d (%v)", g, group, err)
	}
}

// childOf finds the one child of a process, whichever of its threads made it.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		var child int
		if _, err := fmt.Sscan(string(b), &child); err == nil {
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// Signals reach the command's whole process group, each once.
func TestSignalsArePassedOn(t *testing.T) {
	s := piped(t, "-q", "sh", "-c", "trap : USR1; count-signals & count-signals; wait")
	s.expect("ready")
	s.expect("ready")
	s.send(syscall.SIGUSR1)
	lines, _ := s.rest()
	if n := strings.Count(strings.Join(lines, "\n"), "got user defined signal 1"); n != 2 {
		t.Errorf("%d of 2 processes were reached: %q", n, lines)
	}

	s = piped(t, "-q", "count-signals", "9")
	s.expect("ready")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2} {
		s.send(sig)
		s.expect("got " + sig.String())
	}
	s.send(syscall.SIGUSR1)
	if lines, status := s.rest(); len(lines) != 1 || status != 9 {
		t.Errorf("%q, status %d", lines, status)
	}
}

// A command that ends by the signal gives 128+n, with a last sample taken.
func TestTermEndsTheCommandAndTheRecordIsWhole(t *testing.T) {
	s := piped(t, "-i", "3600", "sh", "-c", "echo ready; exec sleep 1000")
	s.expect("ready")
	s.send(syscall.SIGTERM)
	lines, status := s.rest()
	if status != 128+int(syscall.SIGTERM) {
		t.Errorf("status %d", status)
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], `{"timestamp_secs":`) {
		t.Errorf("samples: %q", lines)
	}
}

// A signal that was ignored when we were started is not passed on: nohup.
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	cmd := command(t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" HUP; exec resource-tracker -q sh -c 'echo ready; read x; echo "heard $x"'`}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := begin(t, cmd, out, nil)
	s.expect("ready")
	s.send(syscall.SIGHUP)
	if _, err := io.WriteString(in, "on\n"); err != nil {
		t.Fatal(err)
	}
	s.expect("heard on")
	if _, status := s.rest(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// Alone, SIGTERM ends it with 0 after the last sample.
func TestTermAloneIsASuccess(t *testing.T) {
	cmd := command(t, "-i", "3600", "-f", "csv", "-o", "out.csv", "--spool", "runs")
	s := &session{t: t, cmd: cmd}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cmd.Dir, "out.csv")
	runs := filepath.Join(cmd.Dir, "runs")
	await.Change(t, runs, "a spool file", func() bool {
		found, _ := filepath.Glob(filepath.Join(runs, "*.db"))
		return len(found) == 1
	})
	s.send(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n != 2 {
		t.Errorf("%d lines, a header and one row were expected: %s", n, b)
	}
}
