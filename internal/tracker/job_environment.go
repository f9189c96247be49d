package tracker

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/environ"
)

// The pauses between two looks at the job's processes: short at first, because a step
// may end in a fraction of a second; later a part of the time since the last step began,
// because the beginning of the next one interrupts the pause.
const (
	lookFirst  = 2 * time.Millisecond
	lookSoon   = 25 * time.Millisecond // the longest pause within lookYoung of a step's beginning
	lookYoung  = 2 * time.Second
	lookPart   = 16               // later the pause is this part of the step's age
	lookSeldom = 10 * time.Second // and never longer
	batchFor   = time.Minute      // a job that has no batch script by then has none
)

// JobEnvironment completes a Run from the environment of the job's processes, which has what
// no hook has (the job's name, its array ids), and finds the batch script.
type JobEnvironment struct {
	job     *JobWatch
	changed func(rt.Run) error
	warn    func(error)

	pids []int
	seen map[int]bool // processes that need no second look
	text []byte       // buffer for one environment

	mu    sync.Mutex
	run   rt.Run
	batch *proc.ExitStatus // of the batch script; nil until it is found
	// closed is set when the run ends: a reader that comes back late changes nothing.
	closed bool
}

// NewJobEnvironment returns the environment of the run's job. changed receives each Run
// that has more than the one before; warn receives its errors.
func NewJobEnvironment(job *JobWatch, run rt.Run, changed func(rt.Run) error, warn func(error)) *JobEnvironment {
	return &JobEnvironment{job: job, run: run, changed: changed, warn: warn, seen: map[int]bool{}, text: make([]byte, 0, 8<<10)}
}

// Run returns the Run with all that is known by now.
func (e *JobEnvironment) Run() rt.Run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run
}

// BatchStatus returns how the batch script ended, if the kernel reports it.
func (e *JobEnvironment) BatchStatus() (status rt.Opt[syscall.WaitStatus]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.batch != nil {
		status = e.batch.Status()
	}
	return status
}

// Close closes the descriptor of the batch script. The Run does not change after it.
func (e *JobEnvironment) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.batch == nil {
		return nil
	}
	return e.batch.Close()
}

// Follow looks at the job's processes until all is known or ctx is done.
func (e *JobEnvironment) Follow(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-e.job.found:
	case <-e.job.trees.met:
	}
	since := time.Now()
	for begun, pause := since, lookFirst; ; {
		e.look()
		if e.isComplete(time.Since(since)) {
			return
		}
		pause = min(2*pause, longestPause(time.Since(begun)))
		select {
		case <-ctx.Done():
			return
		case <-e.job.begun:
			if e.Run().Meta.JobName == "" {
				begun, pause = time.Now(), lookFirst
			}
		case <-time.After(pause):
		}
	}
}

// longestPause is the limit of the pause when the last step began age ago.
func longestPause(age time.Duration) time.Duration {
	if age <= lookYoung {
		return lookSoon
	}
	return min(age/lookPart, lookSeldom)
}

// look reads the environment of the job's processes that are new.
func (e *JobEnvironment) look() {
	e.pids = e.job.Procs(e.pids[:0])
	for _, pid := range e.pids {
		if e.seen[pid] {
			continue
		}
		text, err := environ.ReadProcess(e.job.procRoot, pid, e.text)
		if err != nil || len(text) == 0 {
			continue // the process has ended, or has not executed its program yet
		}
		e.text = text
		if e.merge(pid, environ.Parse(text)) {
			e.seen[pid] = true
		}
	}
}

// merge adds a process's environment to the Run. It reports whether the process is a task of
// the job: a slurmstepd that has not begun its task yet shows another environment.
func (e *JobEnvironment) merge(pid int, env environ.Env) bool {
	if !env.Number("SLURM_JOB_ID").Valid() {
		return false
	}
	e.mu.Lock() // also while the changed Run is passed on, so that Close waits for that
	defer e.mu.Unlock()
	if e.closed {
		return true
	}
	if e.batch == nil && isBatchScript(pid, env) {
		// If this fails the outcome stays what the Epilog reports.
		e.batch, _ = proc.NewExitStatus(pid)
	}
	run := e.run
	if environ.MergeTaskEnv(&run, env) {
		e.run = run
		if err := e.changed(run); err != nil {
			e.warn(err)
		}
	}
	return true
}

// isComplete reports whether a job of this age has nothing more to show.
func (e *JobEnvironment) isComplete(age time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	hasBatch := e.batch != nil || age > batchFor
	return hasBatch && e.run.Meta.JobName != ""
}

// isBatchScript reports whether a process is its own task, and of no numbered step.
func isBatchScript(pid int, env environ.Env) bool {
	task, ok := env.Number("SLURM_TASK_PID").Get()
	return ok && task == uint64(pid) && !env.Number("SLURM_STEP_ID", "SLURM_STEPID").Valid()
}
