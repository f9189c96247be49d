//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cluster is a running Slurm.
type cluster struct {
	name, partition, user string
	nodes                 []string // two
	asUser, asRoot        []string // prefix of a command
	partitions            int      // partitions that each node is in; 0 means one
	bySLUID               bool     // a job's cgroup has the name of its SLUID, as from Slurm 26.05 on
	knowsExit             bool     // the kernel reports the exit of a process, Linux 6.15
	// slurmd stops or starts the slurmd of a node: "stop", "kill" or "start".
	slurmd func(t *testing.T, verb, node string)
	// replace replaces the programs of slurmd by copies, as an upgrade does; nil if it cannot.
	replace  func(t *testing.T)
	oneByOne bool // the machine has one slow CPU, too few for several jobs at a time
	// tries is how often a job may run until its CPU time is no longer more than its processes report. A machine
	// without steal time charges other work of its host to the running process, for example to a process that ends
	// after its report. A defect that counts twice shows in each run, and a run with lost time is never repeated.
	tries int
}

const slurmLab = "../contrib/lab/slurm-lab"

// lab starts a Slurm of two nodes on this host, with cgroup v1 or v2.
func lab(t *testing.T, s *site) *cluster { return labWith(t, s, "--no-dbd") }

// hasV2 reports whether /sys/fs/cgroup is cgroup v2 alone.
func hasV2() bool { return exists("/sys/fs/cgroup/cgroup.controllers") }

// isUserModeLinux reports whether this machine is User Mode Linux: one slow CPU, and no steal time.
func isUserModeLinux(t *testing.T) bool {
	t.Helper()
	cpus, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(cpus, []byte("User Mode Linux"))
}

// labWith starts it with additional options.
func labWith(t *testing.T, s *site, options ...string) *cluster {
	t.Helper()
	t.Setenv("SLURM_LAB_DIR", s.path("lab"))
	prefix := os.Getenv("SLURM_LAB_PREFIX") // with SLURM_LAB_PORT: a second lab on this machine
	if prefix == "" {
		prefix = "n"
		t.Setenv("SLURM_LAB_PORT", "17800")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command(slurmLab, "logs").CombinedOutput() // for the reader of a failure
			t.Logf("%s", out)
		}
		if out, err := exec.Command(slurmLab, "down", "--reap").CombinedOutput(); err != nil {
			t.Errorf("slurm-lab down: %v\n%s", err, out)
		}
	})
	stopOnSignal()
	args := append([]string{"up", "--fresh", "--nodes", "2",
		"--prolog", s.path("prolog"), "--epilog", s.path("epilog"), "--conf", "KillWait=30"}, options...)
	out, err := exec.Command(slurmLab, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("slurm-lab up: %v\n%s", err, out)
	}
	c := &cluster{
		name: "lab", partition: "lab", user: "labuser", nodes: []string{prefix + "1", prefix + "2"},
		asUser: []string{slurmLab, "run"}, asRoot: []string{slurmLab, "root"}, slurmd: labSlurmd,
	}
	if isUserModeLinux(t) {
		c.oneByOne, c.tries = true, 5
	}
	return c
}

// stopOnSignal stops the lab when the tests are interrupted: its daemons are in sessions of their own.
func stopOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-signals
		out, err := exec.Command(slurmLab, "down", "--reap", "--purge").CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "slurm-lab down: %v\n%s", err, out)
		}
		os.Exit(130)
	}()
}

// submit gives a script to sbatch and returns the job's id.
func (c *cluster) submit(t *testing.T, s *site, script string, args ...string) int64 {
	t.Helper()
	argv := append(append([]string{}, c.asUser...), "sbatch", "--parsable", "--output="+s.path("out", "%j"), "--open-mode=append")
	cmd := exec.Command(argv[0], append(argv[1:], args...)...)
	cmd.Stdin = strings.NewReader("#!/bin/bash\n" + script + "\n")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sbatch %v: %v\n%s", args, err, errs.String())
	}
	id, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";")
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		t.Fatalf("sbatch printed %q", out)
	}
	return n
}

// root runs a Slurm command as root.
func (c *cluster) root(t *testing.T, args ...string) string {
	t.Helper()
	argv := append(append([]string{}, c.asRoot...), args...)
	return command(t, argv[0], argv[1:]...)
}

// job is a job as slurmctld describes it.
type job map[string]string

var field = regexp.MustCompile(`(\S+?)=(\S*)`)

// jobs returns a job, the tasks of an array or the components of a het job, by
// their own ids. `scontrol show job` of a finished array task needs the raw id.
func (c *cluster) jobs(t *testing.T, id int64) map[int64]job {
	t.Helper()
	all := map[int64]job{}
	for _, line := range lines(c.root(t, "scontrol", "show", "job", "-o", strconv.FormatInt(id, 10))) {
		j := job{}
		for _, m := range field.FindAllStringSubmatch(line, -1) {
			if _, seen := j[m[1]]; !seen {
				j[m[1]] = m[2]
			}
		}
		all[j.number(t, "JobId")] = j
	}
	return all
}

func (j job) number(t *testing.T, key string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(j[key], 10, 64)
	if err != nil {
		t.Fatalf("%s=%q of %v", key, j[key], j)
	}
	return n
}

var ended = map[string]bool{
	"COMPLETED": true, "FAILED": true, "CANCELLED": true, "OUT_OF_MEMORY": true, "TIMEOUT": true, "NODE_FAIL": true, "BOOT_FAIL": true,
}

// wait waits until a job and its Epilogs are over.
func (c *cluster) wait(t *testing.T, id int64) map[int64]job {
	t.Helper()
	var all map[int64]job
	until(t, "the end of job "+strconv.FormatInt(id, 10), func() bool {
		if c.oneByOne { // each query uses CPU time that the job needs
			time.Sleep(500 * time.Millisecond)
		}
		all = c.jobs(t, id)
		for _, j := range all {
			if !ended[j["JobState"]] {
				return false
			}
		}
		return len(all) > 0
	})
	return all
}

// healthy fails the test where a node has been drained or is down.
func (c *cluster) healthy(t *testing.T) {
	t.Helper()
	states := lines(c.root(t, "sinfo", "-h", "-N", "-o", "%N %T %E"))
	if want := len(c.nodes) * max(c.partitions, 1); len(states) != want {
		t.Errorf("sinfo shows %d nodes, want %d: %q", len(states), want, states)
	}
	for _, s := range states {
		if strings.Contains(s, "drain") || strings.Contains(s, "down") || strings.Contains(s, "fail") {
			t.Errorf("node: %s", s)
		}
	}
}

// output returns what a job printed.
func (s *site) output(t *testing.T, id int64) string {
	t.Helper()
	text, err := os.ReadFile(s.path("out", strconv.FormatInt(id, 10)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
