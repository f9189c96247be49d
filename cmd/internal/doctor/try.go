package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// TryStart limits the time until the job of Try begins. Then srun removes it from the queue.
const TryStart = 90 * time.Second

const (
	tryLimit  = 2 * time.Minute  // until the job has ended
	tryWait   = 30 * time.Second // until the run has ended
	fileWait  = 10 * time.Second // until it exists: its tracker began before the job
	tryPause  = 250 * time.Millisecond
	tryScript = `echo "$SLURM_JOB_ID"; timeout 1 sh -c "while :; do :; done"; exit 0`
)

// Try runs a job of one second on this node with srun, and checks its report.
func (d *Doctor) Try(ctx context.Context) []Check {
	d.checks = nil
	if len(d.nodes) == 0 {
		d.checkNode(ctx)
	}
	if len(d.nodes) == 0 {
		return d.checks
	}
	d.checks = nil
	job, ok := d.tryJob(ctx)
	if !ok {
		return d.checks
	}
	path, ok := d.tryRun(ctx, job)
	if ok {
		d.add(d.tryReport(ctx, path))
	}
	return d.checks
}

// tryJob returns the id of the job.
func (d *Doctor) tryJob(ctx context.Context) (job uint64, hasRun bool) {
	const name = "try.job"
	limited, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	node := d.nodes[0]
	out, err := d.Command(limited, "srun", "--nodelist="+node, "--nodes=1", "--ntasks=1", "--time=1", fmt.Sprintf("--immediate=%.0f", TryStart.Seconds()), "--job-name=rt-doctor", "--chdir=/", "--quiet", "sh", "-c", tryScript)
	if err == nil {
		line, _, _ := bytes.Cut(out, []byte("\n"))
		job, err = strconv.ParseUint(string(line), 10, 64)
	}
	switch {
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		d.add(fail(name, fmt.Sprintf("srun did not end within %s: %v", tryLimit, err), "the job may still wait for "+node, "squeue; set SLURM_PARTITION and SLURM_ACCOUNT for srun, or repeat it when the node has a free CPU"))
	case err != nil:
		d.add(fail(name, fmt.Sprintf("srun: %v", err), "no job was tried", "fix what srun reports: set SLURM_PARTITION, SLURM_ACCOUNT, or run rt-spool doctor --try as a user who may submit jobs"))
	default:
		d.add(ok(name, "job %d ran on %s", job, node))
		return job, true
	}
	return 0, false
}

var (
	errWaiting = errors.New("the run has not ended")
	errNoFile  = errors.New("the job has no file")
)

// tryRun returns the path of the job's run. The Epilog, after which it is closed, may run later than srun ends.
func (d *Doctor) tryRun(ctx context.Context, job uint64) (path string, hasEnded bool) {
	const name = "try.run"
	dir := d.Config.Spool.Dir
	began := d.Now()
	path, err := findEnded(d.path(dir), job)
	for err != nil {
		limit := tryWait
		if errors.Is(err, errNoFile) {
			limit = fileWait
		}
		if d.Now().Sub(began) >= limit || !d.Wait(ctx, tryPause) {
			break
		}
		path, err = findEnded(d.path(dir), job)
	}
	if err != nil {
		d.add(fail(name, fmt.Sprintf("no run of job %d has ended in %s: %v", job, dir, err), "jobs of this node are not tracked", "journalctl -t rt-prolog -t rt-epilog -t rt-tracker shows the reason"))
		return "", false
	}
	d.add(ok(name, "%s", strings.TrimPrefix(path, strings.TrimSuffix(d.Root, "/"))))
	return path, true
}

// findEnded returns the path of the run of a job.
func findEnded(dir string, job uint64) (path string, err error) {
	found, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("job-%d-*.db", job)))
	err = errNoFile
	for _, path := range found {
		var r *spool.Reader
		r, err = spool.Open(path)
		if err != nil {
			continue
		}
		state := r.Run().State
		r.Close()
		if state != rt.StateRunning {
			return path, nil
		}
		err = errWaiting
	}
	return "", err
}

// tryReport checks the figures of the report.
func (d *Doctor) tryReport(ctx context.Context, path string) Check {
	const name = "try.report"
	s, err := summarize(ctx, path)
	if err != nil {
		return fail(name, err.Error(), "the run cannot be reported", "rt-spool verify "+path)
	}
	var missing []string
	for _, figure := range []struct {
		name  string
		found bool
	}{
		{"CPU time", s.CPU.UsedSecs.Or(0) > 0}, {"peak memory", s.Memory.PeakBytes.Or(0) > 0},
		{"the first or the last reading", s.Record.Complete},
	} {
		if !figure.found {
			missing = append(missing, figure.name)
		}
	}
	accepted := []rt.Outcome{rt.OutcomeFinished, rt.OutcomeUnknown, ""} // srun's own status is not the job's
	switch {
	case !slices.Contains(accepted, s.Run.Outcome):
		return fail(name, fmt.Sprintf("the outcome is %q, and the job finished", s.Run.Outcome), "outcomes in reports are wrong", "rt-spool report --verbose "+path)
	case len(missing) > 0:
		return warn(name, "the report lacks "+strings.Join(missing, ", "), "reports of this node lack these figures", "the checks of slurm and kernel above; rt-spool report --verbose "+path)
	default:
		return ok(name, "%.2f s of CPU, peak %d KiB, outcome %s", s.CPU.UsedSecs.Or(0), s.Memory.PeakBytes.Or(0)>>10, s.Run.Outcome)
	}
}

func summarize(ctx context.Context, path string) (*report.Summary, error) {
	r, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	events, err := r.Events()
	if err != nil {
		return nil, err
	}
	return report.Summarize(r.Run(), events, r.Snapshots(ctx, 1, 0))
}
