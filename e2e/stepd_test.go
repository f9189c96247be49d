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
type stepdWatch struct {
	mu   sync.Mutex
	used map[string]time.Duration // by .../<node>_slurmstepd.scope/job_N/step_X/slurm/cpu.stat
}

const stepdPeriod = 20 * time.Millisecond

const stepdFiles = "/sys/fs/cgroup/system.slice/*_slurmstepd.scope/job_*/step_*/slurm/cpu.stat"

// watchStepd reads until the test ends.
func watchStepd(t *testing.T) *stepdWatch {
	w := &stepdWatch{used: map[string]time.Duration{}}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(stepdPeriod); ; {
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
	files, err := filepath.Glob(stepdFiles)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the step has ended
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "usage_usec "); ok {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil {
					w.used[f] = max(w.used[f], time.Duration(n)*time.Microsecond)
				}
			}
		}
	}
}

// of returns what the slurmstepds of a job on a node had used when last seen, and
// how much more it may have been: each can end between two readings. Both are 0
// with cgroup v1, where they are not in the job's cgroup.
func (w *stepdWatch) of(jobID int64, node string) (sum, unseen time.Duration) {
	if w == nil {
		return 0, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for f, used := range w.used {
		if strings.Contains(f, "/"+node+"_slurmstepd.scope/job_"+strconv.FormatInt(jobID, 10)+"/") {
			sum += used
			unseen += stepdPeriod
		}
	}
	return sum, unseen
}
