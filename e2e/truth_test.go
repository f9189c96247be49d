//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// truth is what a job's own processes on one node report, from getrusage(2).
type truth struct {
	cpu     time.Duration
	began   time.Duration    // of cpu: used by the processes as slurmstepd, before exec
	touched int64            // bytes; the maximum of one process tree
	tasks   map[string]truth // of step 0, by their numbers on the node
	steps   map[string]truth // the numbered steps
	read    int64            // bytes, of the processes and those that they waited for; below 0 if they could not read it
	written int64
	reports int
	// virtual: the machine has no steal time, and charges other work of its host to the running process, at its end
	// as at its beginning.
	virtual bool
}

// truthOf adds up what the workloads of a job on a node have written. job is the id in the processes' environment: in
// a het job the leader's id.
func (s *site) truthOf(t *testing.T, job int64, node string) truth {
	t.Helper()
	files, err := filepath.Glob(s.path("truth", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := truth{tasks: map[string]truth{}, steps: map[string]truth{}, virtual: os.Getenv(guestVar) != "" || isUserModeLinux(t)}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			JobID   int64  `json:"job_id,string"`
			Node    string `json:"node"`
			Step    string `json:"step"`
			Task    string `json:"task"`
			Rank    string `json:"rank"`
			User    int64  `json:"user_us"`
			System  int64  `json:"system_us"`
			Began   int64  `json:"began_us"`
			Touched int64  `json:"touched_bytes"`
			Read    int64  `json:"read_bytes"`
			Written int64  `json:"written_bytes"`
		}
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v\n%s", f, err, data)
		}
		if r.JobID != job || r.Node != node {
			continue
		}
		own := truth{
			cpu: time.Duration(r.User+r.System) * time.Microsecond, began: time.Duration(r.Began) * time.Microsecond,
			touched: r.Touched, read: r.Read, written: r.Written, reports: 1, virtual: sum.virtual,
		}
		sum.add(own)
		if r.Step == "0" {
			task := r.Task
			if s.byRank {
				task = r.Rank
			}
			sum.tasks[task] = own
		}
		if r.Step != "" {
			step := sum.steps[r.Step]
			step.add(own)
			step.virtual = own.virtual
			sum.steps[r.Step] = step
		}
	}
	return sum
}

// add adds one report.
func (t *truth) add(one truth) {
	t.cpu += one.cpu
	t.began += one.began
	t.touched = max(t.touched, one.touched)
	t.read, t.written = t.read+one.read, t.written+one.written
	t.reports++
}

// slack is the permitted error of a reading of CPU time: 0.5 % or 50 ms.
func (t truth) slack() time.Duration { return max(t.cpu/200, 50*time.Millisecond) }

// disagrees reports whether a reading of CPU time is too high or too low. A task starts as
// a fork of slurmstepd, in slurmstepd's part of the cgroup: began is that share. The share
// that a virtual machine charged to it is also the limit of what it may charge after the
// last report.
func (t truth) disagrees(got time.Duration) (high, low bool) {
	slack, after := t.slack(), time.Duration(0)
	if t.virtual {
		after = t.began
	}
	return got > t.cpu+slack+after, got < t.cpu-t.began-slack
}
