package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Processes whose parent has ended stay in the tree, also daemons, and what they use counts once. The status is the
// command's own, and no zombie is left.
func TestOrphansStayInTheTree(t *testing.T) {
	t.Parallel()
	const burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
	const work = burn + "; times >times.$n; mv times.$n done.$n"
	for _, tt := range []struct {
		name    string
		workers string
		start   string // of the worker $n
	}{
		{"a daemon", "1", "(setsid sh -c '" + work + "' &)"},
		{"two forks", "1", "(setsid sh -c '(" + work + ") & exit 0' &)"},
		{"a shell that executes", "1", "(exec setsid sh -c '" + work + "' &)"},
		{"some at once", "1 2 3", "(setsid sh -c '" + work + "' &)"},
		{"with children", "1", "(setsid sh -c '(" + burn + "); times >times.$n; mv times.$n done.$n' &)"},
		{"many short ones", "1", "(setsid sh -c 'for k in 1 2 3 4 5 6 7 8 9; do (sh -c : &); done; " + work + "' &)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			script := "for n in " + tt.workers + "; do export n; " + tt.start + "; done; " +
				"for n in " + tt.workers + "; do while [ ! -e done.$n ]; do sleep 0.2; done; done; sleep 1.5; " +
				"ps -o stat= --ppid $PPID | grep -c Z >zombies; exit 7"
			cmd := command(t, "--quiet", "--spool", "spool", "--", "sh", "-c", script)
			out, _ := cmd.CombinedOutput() // its status is checked
			if status := cmd.ProcessState.ExitCode(); status != 7 {
				t.Fatalf("status %d: %s", status, out)
			}
			used, _ := usedByTree(t, filepath.Join(cmd.Dir, "spool"))
			least, most := timesOf(t, cmd.Dir), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
			const rounding = 100 * time.Millisecond
			if used < least-rounding || used > most+rounding {
				t.Errorf("the tree used %s, want %s to %s", used, least, most)
			}
			if zombies, err := os.ReadFile(filepath.Join(cmd.Dir, "zombies")); err != nil || strings.TrimSpace(string(zombies)) != "0" {
				t.Errorf("zombies: %q, %v", zombies, err)
			}
		})
	}
}

// timesOf adds up what the workers' shells have printed in the form of times: "0m0.30s 0m0.01s".
func timesOf(t *testing.T, dir string) (sum time.Duration) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "done.*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for field := range strings.FieldsSeq(string(text)) {
			d, err := time.ParseDuration(field)
			if err != nil {
				t.Fatal(err)
			}
			sum += d
		}
	}
	return sum
}

// usedByTree returns the CPU time of the tree of the one run of a spool, and its events.
func usedByTree(t *testing.T, dir string) (used time.Duration, events []rt.Event) {
	t.Helper()
	entries, err := spool.List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	r, err := spool.Open(entries[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for s, err := range r.Snapshots(t.Context(), 1, math.MaxInt64) {
		if err != nil {
			t.Fatal(err)
		}
		used = time.Duration(s.Tree.CPUUserTicks.Or(0)+s.Tree.CPUSystemTicks.Or(0)) * time.Second / rt.TicksPerSecond
	}
	events, err = r.Events()
	if err != nil {
		t.Fatal(err)
	}
	return used, events
}

// What goes on after the command is named, and a tree of another parent has a lower bound.
func TestTreeIsMarked(t *testing.T) {
	t.Parallel()
	has := func(events []rt.Event, name string) bool {
		for _, e := range events {
			if e.Kind == "job" && e.Name == name {
				return true
			}
		}
		return false
	}
	for _, tt := range []struct {
		name, script       string
		isRunning, isBound bool
		byPID              bool
	}{
		{"a command", "sleep 0.1", false, false, false},
		{"a daemon goes on", "(setsid sleep 20 >/dev/null 2>&1 &); sleep 0.1", true, false, false},
		{"a process that another program has started", "exec sleep 20", false, true, true},
	} {
		cmd := command(t, "--quiet", "--spool", "spool", "--", "sh", "-c", tt.script)
		if tt.byPID {
			other := exec.Command("sleep", "20")
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			cmd.Args = []string{"sh", "-c", `timeout -s TERM 1 "$0" --quiet --spool spool --pid ` + strconv.Itoa(other.Process.Pid) + "; true", cmd.Path}
			cmd.Path = "/bin/sh"
			defer func() {
				_ = other.Process.Kill() // it may have ended
				_ = other.Wait()
			}()
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", tt.name, err, out)
		}
		_, events := usedByTree(t, filepath.Join(cmd.Dir, "spool"))
		if has(events, "processes") != tt.isRunning || has(events, "tree") != tt.isBound {
			t.Errorf("%s: %+v", tt.name, events)
		}
	}
}
