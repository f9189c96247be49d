package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/spool"
)

// sender returns the pid of the rt-spool that a tracker has started. It waits for the first request of the process.
func (s *station) sender(tracker *exec.Cmd) int {
	s.t.Helper()
	s.await(1, "POST", "")
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := procfile.ReadStat("/proc", pid)
		if err == nil && stat.PPID == tracker.Process.Pid && string(stat.Comm) == "rt-spool" {
			return pid
		}
	}
	s.t.Fatal("rt-spool is no child of the tracker")
	return 0
}

// The process that sends is no part of the tracked tree and holds none of the tracker's streams. It
// shows no token in its arguments, and ignores the signals that the tracker handles. It exits
// before the tracker.
func TestSenderIsSeparate(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("cat")
	endCommand := commandInput(t, cmd)
	out := s.start(cmd)
	pid := s.sender(cmd)
	s.awaitUpload()
	stat, err := procfile.ReadStat("/proc", pid)
	if err != nil || stat.PGRP != pid {
		t.Errorf("its process group is %d, %v; want its own, %d", stat.PGRP, err, pid)
	}
	args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || bytes.Contains(args, []byte(testToken)) {
		t.Errorf("its arguments: %q, %v", args, err)
	}
	if !holdsLock(t, pid, cmd) {
		t.Error("it does not hold the lock of the run: a drain can take the run while it still sends it")
	}
	for fd := 1; fd <= 2; fd++ {
		stream := openFiles(t, cmd.Process.Pid)[fd]
		for at, file := range openFiles(t, pid) {
			if file == stream {
				t.Errorf("its descriptor %d is the tracker's %d, %s", at, fd, file)
			}
		}
	}
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1} {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Errorf("%s: %v", signal, err)
		}
	}
	endCommand()
	o := s.end(cmd, out)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("rt-spool is there after its tracker: %v", err)
	}
	ended, _ := s.ended()
	if o.status != 0 || o.stderr != "" || len(o.kept) != 0 || len(ended) != 1 || ended[0].Rows != strings.Count(o.stdout, "\n") {
		t.Errorf("%+v, received %+v", o, ended)
	}
	for line := range strings.Lines(o.stdout) {
		sample, _, err := samples.DecodeJSON([]byte(line))
		if err != nil || sample.CPU.ProcessChildCount.Or(99) != 0 {
			t.Errorf("%d processes below cat, %v", sample.CPU.ProcessChildCount.Or(99), err)
		}
	}
}

// commandInput makes a pipe the standard input of a command, and returns a function that closes it.
func commandInput(t *testing.T, cmd *exec.Cmd) (end func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// holdsLock reports whether a process has the lock file of the run of a tracker open.
func holdsLock(t *testing.T, pid int, tracker *exec.Cmd) bool {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(tracker.Dir, "tmp", "*", "*.lock"))
	if err != nil || len(locks) != 1 {
		t.Fatalf("lock files: %q, %v", locks, err)
	}
	lock, err := os.Stat(locks[0])
	if err != nil {
		t.Fatal(err)
	}
	for fd := range openFiles(t, pid) {
		file, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd))
		if err == nil && os.SameFile(file, lock) {
			return true
		}
	}
	return false
}

// openFiles returns what the descriptors of a process are.
func openFiles(t *testing.T, pid int) map[int]string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[int]string{}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		if file, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil { // it may be closed by now
			files[fd] = file
		}
	}
	return files
}

// If the process that sends is killed, there is one warning, and the command goes on. The command
// in the warning delivers the run, each row once.
func TestSenderIsKilled(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-o", "samples", "sh", "-c", "cat; echo mine; exit 7")
	endCommand := commandInput(t, cmd)
	out := s.start(cmd)
	pid := s.sender(cmd)
	s.awaitUpload()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	endCommand()
	o := s.end(cmd, out)
	if o.status != 7 || o.stdout != "mine\n" || len(o.kept) != 1 || strings.Count(o.stderr, "warning: ") != 1 || !strings.Contains(o.stderr, "rt-spool, which sends it: signal: killed; it is kept, and this sends it later: ") {
		t.Fatalf("%+v", o)
	}
	if later := s.later(cmd, o.stderr); later.status != 0 {
		t.Fatalf("later: %+v", later)
	}
	s.checkOne(samplesIn(t, cmd), false)
}

func samplesIn(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	samples, err := os.ReadFile(filepath.Join(cmd.Dir, "samples"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(samples, []byte("\n"))
}

// If the tracker is killed, the process that sends exits, and a drain delivers each row once.
func TestTrackerIsKilledBeforeItsSender(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-q")
	out := s.start(cmd)
	pid := s.sender(cmd)
	s.awaitUpload()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o := s.end(cmd, out)
	await.Exit(t, pid)
	if len(o.kept) != 1 || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	awaitDead(t, o.kept[0])
	entries, err := spool.List(o.kept[0])
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	drain := exec.Command(rtSpool(t), "--spool", o.kept[0], "drain")
	drain.Env, drain.Dir = cmd.Env, cmd.Dir
	if d := s.run(drain); d.status != 0 {
		t.Fatalf("%+v", d)
	}
	if ended, all := s.ended(); len(ended) != 1 || all != 1 || ended[0].Rows != int(entries[0].Snapshots-1) {
		t.Errorf("%d snapshots, received %+v of %d", entries[0].Snapshots, ended, all)
	}
}

// awaitDead waits until no process keeps a run live: the one that sends exits after its tracker.
func awaitDead(t *testing.T, dir string) {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		await.Unlocked(t, lock)
	}
	entries, err := spool.List(dir)
	if err != nil || slices.ContainsFunc(entries, func(e spool.Entry) bool { return e.Live }) {
		t.Fatalf("%+v, %v", entries, err)
	}
}

// Without rt-spool the command runs as usual, one warning says where it was expected, and the run is kept.
func TestNoSender(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-o", "samples", "/bin/sh", "-c", "exit 7")
	withPath := slices.Clone(cmd.Env)
	cmd.Env = append(cmd.Env, "PATH="+t.TempDir())
	o := s.run(cmd)
	if o.status != 7 || len(o.kept) != 1 || len(s.requests("POST", "")) != 0 || strings.Count(o.stderr, "warning: ") != 1 || !strings.Contains(o.stderr, "nor in PATH: install it there") {
		t.Fatalf("%+v", o)
	}
	cmd.Env = withPath
	if later := s.later(cmd, o.stderr); later.status != 0 {
		t.Fatalf("later: %+v", later)
	}
	s.checkOne(samplesIn(t, cmd), false)
}

// The rt-spool in the directory of resource-tracker is used, not another one in PATH.
func TestSenderNextToTheTracker(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-q", "true")
	dir := t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, make := range [][]string{ // a program that another process has written can be executed at once
		{"cp", own, "bin/resource-tracker"}, {"ln", "-s", rtSpool(t), "bin/rt-spool"},
		{"ln", "-s", "../bin/resource-tracker", "other/resource-tracker"}, {"ln", "-s", "/bin/false", "other/rt-spool"},
	} {
		run := exec.Command(make[0], make[1:]...)
		run.Dir = dir
		if text, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", make, err, text)
		}
	}
	cmd.Path = filepath.Join(dir, "other", "resource-tracker")
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(dir, "other")+":/usr/bin:/bin")
	if o := s.run(cmd); o.status != 0 || o.stderr != "" || len(o.kept) != 0 {
		t.Fatalf("%+v", o)
	}
	if ended, _ := s.ended(); len(ended) != 1 {
		t.Errorf("received %+v", ended)
	}
}
