package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
)

// inStep is the program as a task of a step on a node that is not there. Its spool
// is state/rt below dir.
func inStep(t *testing.T, dir, step string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "SLURM_JOB_ID=77", "SLURM_STEP_ID="+step, "SLURMD_NODENAME=nowhere7", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
	return cmd
}

// atOnce starts the commands and lets them end when all of them run.
func atOnce(t *testing.T, dir string, commands []*exec.Cmd) {
	t.Helper()
	input, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	defer end.Close() // after a failure
	var running sync.WaitGroup
	for _, cmd := range commands {
		cmd.Stdin = input
		running.Go(func() { _ = cmd.Run() }) // its status is looked at by the caller
	}
	await.Change(t, dir, "the start of all commands", func() bool {
		started, err := filepath.Glob(filepath.Join(dir, "ran.*"))
		return err == nil && len(started) == len(commands)
	})
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	running.Wait()
}

// task is a command that prints a line and waits for the end of the input, which all tasks share.
func task(i int, end string) []string {
	return []string{"sh", "-c", fmt.Sprintf("echo task %d; : > ran.%d; read line; %s", i, i, end)}
}

func runsIn(t *testing.T, dir string) []spool.Entry {
	t.Helper()
	entries, err := spool.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Err != nil || e.Live || e.Snapshots < 2 {
			t.Errorf("%+v", e)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != len(entries) {
		t.Errorf("other files than the runs: %q, %v", left, err)
	}
	return entries
}

// srun -n 8: one task tracks the step on this node; the others only run their
// command, and nothing is said about it. The one that tracks says what was used.
func TestOneTaskOfAStepTracks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var commands []*exec.Cmd
	for i := range 8 {
		commands = append(commands, inStep(t, dir, "3", task(i, fmt.Sprintf("exit %d", 40+i))...))
	}
	atOnce(t, dir, commands)
	summaries := 0
	for i, cmd := range commands {
		said := fmt.Sprint(cmd.Stderr)
		if strings.HasPrefix(said, "resource-tracker: Job 77.3: ") {
			_, said, _ = strings.Cut(said, "\n")
			summaries++
		}
		if got, want := fmt.Sprint(cmd.Stdout), fmt.Sprintf("task %d\n", i); got != want || cmd.ProcessState.ExitCode() != 40+i || said != "" {
			t.Errorf("task %d: %q, %s, said %q", i, got, cmd.ProcessState, said)
		}
	}
	if summaries != 1 {
		t.Errorf("%d tasks said what was used", summaries)
	}
	if runs := runsIn(t, filepath.Join(dir, "state", "rt")); len(runs) != 1 || runs[0].Run.Step != "3" {
		t.Errorf("%d runs: %+v", len(runs), runs)
	}
}

// Each of them prints its samples where that was asked for.
func TestAllTasksPrintToTheirFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var commands []*exec.Cmd
	for i := range 3 {
		commands = append(commands, inStep(t, dir, "3", append([]string{"-o", fmt.Sprintf("samples.%d", i), "--spool", "both"}, task(i, "exit 9")...)...))
	}
	atOnce(t, dir, commands)
	for i, cmd := range commands {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("samples.%d", i)))
		if err != nil || !strings.HasPrefix(string(b), "{") || cmd.ProcessState.ExitCode() != 9 || fmt.Sprint(cmd.Stderr) != "" {
			t.Errorf("%q, %v, %s, said %q", b, err, cmd.ProcessState, cmd.Stderr)
		}
	}
	if runs := runsIn(t, filepath.Join(dir, "both")); len(runs) != 1 {
		t.Errorf("%d runs", len(runs))
	}
}

// Other steps, and the commands of a batch script, have nothing to do with it. A
// command that is not tracked ends with the statuses of a shell too.
func TestStepLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var commands []*exec.Cmd
	for i, step := range []string{"1", "2", "4294967291", "4294967291"} {
		commands = append(commands, inStep(t, dir, step, task(i, "exit 0")...))
	}
	statuses := map[string]int{"exit 5": 5, "kill -9 $$": 128 + 9, "kill -15 $$": 128 + 15, "exec /dev/null": 126}
	holder := tracker.AcquireStepLock(dir, "77.8@nowhere7.step-lock")
	if !holder.Held() {
		t.Fatal("the step's lock is not free")
	}
	for script, want := range statuses {
		cmd := inStep(t, dir, "8", "--spool", ".", "sh", "-c", script)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$@"; exit $?`, "sh"}, cmd.Args...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: status %d, want %d: %s", script, got, want, cmd.Stderr)
		}
	}
	for name, want := range map[string]int{"no-such-command": exitNotFound, "/dev/null": exitNotExecutable} {
		cmd := inStep(t, dir, "8", "--spool", ".", name)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want || !strings.HasPrefix(fmt.Sprint(cmd.Stderr), "resource-tracker: "+name) {
			t.Errorf("%s: status %d, want %d: %s", name, got, want, cmd.Stderr)
		}
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*.db")); err != nil || len(found) != 0 {
		t.Errorf("%q, %v", found, err)
	}
	if err := holder.Close(); err != nil {
		t.Error(err)
	}
	atOnce(t, dir, commands)
	if runs := runsIn(t, filepath.Join(dir, "state", "rt")); len(runs) != len(commands) {
		t.Errorf("%d runs of %d commands", len(runs), len(commands))
	}
}
