//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stepdWatch follows what slurmstepd itself uses in a job's cgroup. With cgroup v2
// Slurm keeps its slurmstepds in the job's directory (step_X/slurm, beside the
// tasks in step_X/user), so the kernel's figures of a job hold theirs too. That is
// little on a real machine; in User Mode Linux, where a system call costs
// ten times as much, it is not.
//
// What they used is known within bounds: no less than what the cgroup's own file
// said when it was last read, and no more than that and the time until the cgroup
// was found gone, because the machine has one CPU.
type stepdWatch struct {
	mu    sync.Mutex
	steps map[string]*stepd // by .../<node>_slurmstepd.scope/job_N/step_X/slurm
}

type stepd struct {
	used       time.Duration
	seen, gone time.Time // gone is zero while it is there
}

const stepdDirs = "/sys/fs/cgroup/system.slice/*_slurmstepd.scope/job_*/step_*/slurm"

// watchStepd reads until the test ends.
func watchStepd(t *testing.T) *stepdWatch {
	w := &stepdWatch{steps: map[string]*stepd{}}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				w.read()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return w
}

func (w *stepdWatch) read() {
	dirs, err := filepath.Glob(stepdDirs)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	there := map[string]bool{}
	for _, d := range dirs {
		now := time.Now()
		text, err := os.ReadFile(d + "/cpu.stat")
		if err != nil {
			continue // the step has ended
		}
		there[d] = true
		for line := range strings.Lines(string(text)) {
			v, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec ")
			if n, err := strconv.ParseInt(v, 10, 64); ok && err == nil {
				w.steps[d] = &stepd{used: time.Duration(n) * time.Microsecond, seen: now}
			}
		}
	}
	for d, s := range w.steps {
		if !there[d] && s.gone.IsZero() {
			s.gone = time.Now()
		}
	}
}

// of returns the least and the most that the slurmstepds of a job on a node have
// used in its cgroup; both are 0 with cgroup v1, where they are not in it.
func (w *stepdWatch) of(t *testing.T, jobID int64, node string) (least, most time.Duration) {
	t.Helper()
	if w == nil {
		return 0, 0
	}
	job := "/" + node + "_slurmstepd.scope/job_" + strconv.FormatInt(jobID, 10) + "/"
	until(t, 30*time.Second, "slurmstepds to end", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		least, most = 0, 0
		for dir, s := range w.steps {
			if !strings.Contains(dir, job) {
				continue
			}
			if s.gone.IsZero() {
				return false
			}
			least += s.used
			most += s.used + s.gone.Sub(s.seen)
		}
		return true
	})
	return least, most
}
