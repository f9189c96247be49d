//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestBurst starts hundreds of Prologs at the same instant, as many as an array of short jobs can start on a node.
// Then it starts their Epilogs, so that most jobs end before their trackers have begun. Each job has a complete run,
// and no other files are left.
func TestBurst(t *testing.T) {
	for _, n := range []int{128, 250} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newSite(t, workDir(t))
			// Jobs without a cgroup cost most: each tracker reads the titles of all processes at each reading. With an
			// interval of a second, they leave no processor to the Prologs of a machine with two.
			settings := map[string]string{"tracker.interval": `"10s"`, "tracker.first_for": `"0s"`}
			if n < 250 { // else the longest ones; other work may share the machine
				settings["hooks.ready_timeout"], settings["hooks.stop_timeout"] = `"10s"`, `"10s"`
			}
			s.configure(settings)
			slowest := runHooks(t, s, "rt-prolog", n)
			t.Logf("the slowest of %d Prologs took %v", n, slowest)
			notes, err := filepath.Glob(s.path("state", "*@n1.json"))
			if err != nil || len(notes) != n {
				t.Errorf("%d of %d jobs have a tracker that their Epilog finds, %v", len(notes), n, err)
			}
			if left := leftByHooks(t, s); len(left) > 0 {
				t.Errorf("the Prologs left %q", left)
			}
			if running := trackers(t, s); running != n {
				t.Errorf("%d trackers of %d jobs are running", running, n)
			}
			slowest = runHooks(t, s, "rt-epilog", n)
			t.Logf("the slowest of %d Epilogs took %v", n, slowest)
			late := gaveUp(t, s)
			if late > n/4 { // a few, if the machine pauses
				t.Errorf("%d hooks of %d jobs gave up", late, n)
			}
			// An Epilog that gets no processor for three seconds ends without work, and says so in the system's log. It may
			// also give up before it finds its tracker.
			for round := 1; round <= 3 && trackers(t, s) > 0; round++ {
				t.Logf("%d trackers are running: all Epilogs run once more", trackers(t, s))
				runHooks(t, s, "rt-epilog", n)
			}
			until(t, "all trackers to end", func() bool { return trackers(t, s) == 0 })
			// A tracker that ends after its Epilog leaves its state file for a later Epilog. The file of the breaker
			// is there if the last Prologs had to wait too long for their trackers.
			until(t, "the state of the jobs to be removed", func() bool {
				runHooks(t, s, "rt-epilog", 1)
				files, err := filepath.Glob(s.path("state", "[0-9]*"))
				return err == nil && len(files) == 0
			})
			closed, err := filepath.Glob(s.path("spool", "*.db"))
			if err != nil || len(closed) != n {
				t.Errorf("%d runs of %d jobs, %v", len(closed), n, err)
			}
			if open, err := filepath.Glob(s.path("spool", "*.lock")); err != nil || len(open) > 0 {
				t.Errorf("these runs are not closed: %q, %v", open, err)
			}
			for _, line := range s.logLines(t) {
				if strings.Contains(line, "in a row") {
					t.Errorf("unexpected log line: %s", line)
				}
			}
		})
	}
}

// gaveUp counts the hooks that have reached their time limit.
func gaveUp(t *testing.T, s *site) (n int) {
	t.Helper()
	for _, line := range s.logLines(t) {
		if strings.Contains(line, "gave up") {
			n++
		}
	}
	return n
}

// leftByHooks returns the files that only killed hooks leave.
func leftByHooks(t *testing.T, s *site) (left []string) {
	t.Helper()
	files, err := os.ReadDir(s.path("state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		isExpected := f.Name() == "node" || filepath.Ext(f.Name()) == ".json"
		if !isExpected || strings.HasPrefix(f.Name(), "breaker@") {
			left = append(left, f.Name())
		}
	}
	return left
}

// runHooks runs a hook for n jobs. The processes wait at a pipe, so that all begin at once. It
// returns the duration of the slowest one.
func runHooks(t *testing.T, s *site, program string, n int) time.Duration {
	t.Helper()
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	results := make(chan error, n)
	for i := range n {
		cmd := exec.Command("sh", "-c", "read gate; exec "+s.path("bin", program)+" --config "+s.config())
		cmd.Stdin, cmd.Stdout, cmd.Stderr = gate, io.Discard, io.Discard
		cmd.Env = []string{fmt.Sprint("SLURM_JOB_ID=", 100+i), "SLURMD_NODENAME=n1", "SLURM_CLUSTER_NAME=lab", "SLURM_JOB_UID=1000", "SLURM_JOB_EXIT_CODE2=0:0"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { results <- cmd.Wait() })
	}
	since := time.Now()
	if err := errors.Join(gate.Close(), open.Close()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	took := time.Since(since)
	close(results)
	var failed []error
	for err := range results {
		failed = append(failed, err)
	}
	if err := errors.Join(slices.DeleteFunc(failed, func(err error) bool { return err == nil })...); err != nil {
		t.Errorf("%s: %v", program, err)
	}
	return took
}
