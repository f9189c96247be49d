//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fault is a defect of a node.
type fault struct {
	name string
	make func(t *testing.T, s *site, dir string) map[string]string // keys of rt.toml
	says []string                                                  // all in the one log line
}

var faults = []fault{
	{"spool-missing", func(t *testing.T, s *site, dir string) map[string]string {
		return map[string]string{"spool.dir": fmt.Sprintf("%q", filepath.Join(dir, "no", "such", "spool"))}
	}, []string{"no/such/spool"}},
	{"spool-read-only", func(t *testing.T, s *site, dir string) map[string]string {
		mountTmpfs(t, dir, "ro")
		return map[string]string{"spool.dir": fmt.Sprintf("%q", dir)}
	}, []string{"read-only"}},
	{"spool-full", func(t *testing.T, s *site, dir string) map[string]string {
		mountTmpfs(t, dir, "size=1m,mode=777")
		fill(t, dir)
		return map[string]string{"spool.dir": fmt.Sprintf("%q", dir)}
	}, []string{"full"}},
	{"config-broken", func(t *testing.T, s *site, dir string) map[string]string {
		return map[string]string{"spool.dri": `"/var/spool/rt"`}
	}, []string{"rt.toml:", "spool.dri"}},
	{"tracker-missing", func(t *testing.T, s *site, dir string) map[string]string {
		return map[string]string{"tracker.path": fmt.Sprintf("%q", filepath.Join(dir, "rt-tracker"))}
	}, []string{"rt-tracker", "no such file"}},
	{"tracker-not-executable", func(t *testing.T, s *site, dir string) map[string]string {
		path := filepath.Join(dir, "rt-tracker")
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return map[string]string{"tracker.path": fmt.Sprintf("%q", path)}
	}, []string{"rt-tracker", "permission denied"}},
}

// runFaults shows that no fault of the node's tracking affects a job, and that each fault
// leaves one clear log line.
func runFaults(t *testing.T, c *cluster, s *site, faults []fault) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			dir := s.path("fault-" + f.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			keys := f.make(t, s, dir)
			keys["tracker.state_dir"] = fmt.Sprintf("%q", filepath.Join(dir, "..", "state-"+f.name))
			s.configure(keys)
			log := watchLog(t, s)
			id := plainJob(t, c, s)
			logged := log.ofJob(t, id)
			if len(logged) != 1 {
				t.Fatalf("%d lines are logged about job %d, want 1:\n%s", len(logged), id, strings.Join(logged, "\n"))
			}
			t.Log(logged[0])
			text := strings.ToLower(logged[0])
			for _, w := range f.says {
				if !strings.Contains(text, strings.ToLower(w)) {
					t.Errorf("the line does not have %q", w)
				}
			}
		})
	}
}

// slurmstepdWaits is what slurmstepd prints in a step's output when a busy machine lets it wait for its own children.
var slurmstepdWaits = regexp.MustCompile(`(?m)^slurmstepd-\S+: error: Timeout waiting for \S+ to become empty\.\n`)

// plainJob runs a small job on the first node and checks that nothing disturbed it.
func plainJob(t *testing.T, c *cluster, s *site) int64 {
	t.Helper()
	id := c.submit(t, s, s.workload()+" --cpu 0.2 --touch 4 && echo all is well", "-n1", "--mem=60", "-w", c.nodes[0])
	j := c.wait(t, id)[id]
	if j["JobState"] != "COMPLETED" || j["ExitCode"] != "0:0" || j["Restarts"] != "0" {
		t.Errorf("the job ended %s with %s after %s restarts", j["JobState"], j["ExitCode"], j["Restarts"])
	}
	if out := slurmstepdWaits.ReplaceAllString(s.output(t, id), ""); out != "all is well\n" {
		t.Errorf("the job printed %q", out)
	}
	c.healthy(t)
	return id
}

func mountTmpfs(t *testing.T, dir, options string) {
	t.Helper()
	command(t, "mount", "-t", "tmpfs", "-o", options, "tmpfs", dir)
	t.Cleanup(func() { command(t, "umount", "-l", dir) })
}

// fill writes until a file system is full.
func fill(t *testing.T, dir string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 4<<20), 0o644)
	if err == nil {
		t.Fatalf("%s accepted 4 MiB", dir)
	}
}

// runKilled kills a tracker in the middle of a job: the job continues, the committed
// readings are complete, and drain closes the run as lost.
func runKilled(t *testing.T, c *cluster, s *site) {
	spool, state := s.path("spool-killed"), s.path("state-killed")
	for _, d := range []string{spool, state} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.own("spool-killed")
	s.configure(map[string]string{"spool.dir": fmt.Sprintf("%q", spool), "tracker.state_dir": fmt.Sprintf("%q", state)})
	log := watchLog(t, s)
	release := s.path("out", "release")
	id := c.submit(t, s, s.workload()+" --cpu 0.2 && until [ -e "+release+" ]; do sleep 0.1; done; echo all is well", "-n1", "--mem=60", "-w", c.nodes[0])
	var file string
	var before int64
	until(t, "committed snapshots", func() bool {
		files, err := filepath.Glob(filepath.Join(spool, "*.db"))
		if err != nil || len(files) != 1 {
			return false
		}
		file = files[0]
		before = count(file)
		return before >= 3
	})
	killTracker(t, s)
	before = count(file)
	if err := os.WriteFile(release, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" || s.output(t, id) != "all is well\n" {
		t.Errorf("the job ended %s and printed %q", j["JobState"], s.output(t, id))
	}
	c.healthy(t)
	if logged := log.ofJob(t, id); len(logged) != 1 {
		t.Errorf("want one log line about job %d: %q", id, logged)
	}
	r := serve(t, s, spool)
	if _, status := s.rtSpool(t, "drain"); status != 0 {
		t.Errorf("drain ended with %d", status)
	}
	after := readRun(t, file)
	if after.snapshots < before || before == 0 {
		t.Errorf("%d snapshots were committed, %d are there", before, after.snapshots)
	}
	if after.Outcome != "lost" || after.State != "delivered" {
		t.Errorf("the run is %s with the outcome %q", after.State, after.Outcome)
	}
	if got := r.runs(t); len(got) != 1 || got[0].Status == "running" {
		t.Errorf("the receiver holds %+v", got)
	}
}

// killTracker kills the tracker of this site and waits until it has exited.
func killTracker(t *testing.T, s *site) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, d := range dirs {
		exe, err := os.Readlink(d + "/exe")
		if err != nil || exe != s.path("bin", "rt-tracker") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
		until(t, "the killed tracker to go", func() bool {
			_, err := os.Readlink(d + "/exe")
			return err != nil
		})
	}
	if killed != 1 {
		t.Fatalf("%d trackers run, want 1", killed)
	}
}
