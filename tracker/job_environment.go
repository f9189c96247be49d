package tracker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/slurm/layout"
)

// The pauses between two looks at the job's processes. They are short after the beginning of a
// step, because a step may end in a fraction of a second. Later they grow with the age of the
// step. The beginning of the next step interrupts a pause.
const (
	lookFirst  = 2 * time.Millisecond
	lookSoon   = 25 * time.Millisecond // the longest pause within lookYoung of a step's beginning
	lookYoung  = 2 * time.Second
	lookPart   = 16               // later the pause is this part of the step's age
	lookSeldom = 10 * time.Second // the longest pause, unless looks are expensive
	batchFor   = time.Minute      // a job without a batch script after this time has none
)

// The limits of the cost of looks: the job's user decides how many processes there are.
const (
	lookMost  = 64  // environments that one look reads
	lookReads = 17  // maximum number of reads of one process, over two minutes: a TaskProlog runs before the task's program
	lookShare = 400 // after lookYoung, a pause is at least lookShare times the CPU time of the look before it: half of tracker.budget_cpu
)

// seenProcess is a process of the job.
type seenProcess struct {
	first time.Time // when it was seen first
	reads int       // of its environment; lookReads if no further read is needed
	look  int       // the number of the last look that saw it
}

// JobEnvironment completes a Run with the job's name and the user's labels, which Slurm does not
// pass to a hook. It reads them from the environments of the job's processes. It also finds the
// batch script.
type JobEnvironment struct {
	job     *JobWatch
	changed func(rt.Run) error
	warn    func(error)
	list    func([]int) []int                         // appends the job's processes
	readEnv func(pid int, buf []byte) ([]byte, error) // of one of them

	pids  []int
	seen  map[int]seenProcess
	looks int
	text  []byte // buffer for one environment

	mu    sync.Mutex
	run   rt.Run
	batch *proc.ExitStatus // of the batch script; nil until it is found
	// closed is set when the run ends: a read that returns later changes nothing.
	closed bool
}

// NewJobEnvironment returns the environment of the run's job. It passes the Run to changed each
// time that it has learned more, and passes an error of changed to warn.
func NewJobEnvironment(job *JobWatch, run rt.Run, changed func(rt.Run) error, warn func(error)) *JobEnvironment {
	readEnv := func(pid int, buf []byte) ([]byte, error) { return environ.ReadProcess(job.procRoot, pid, buf) }
	return &JobEnvironment{job: job, list: job.Procs, readEnv: readEnv, run: run, changed: changed, warn: warn, seen: map[int]seenProcess{}, text: make([]byte, 0, 8<<10)}
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
		used := collect.ProcessTime()
		e.look(time.Now())
		if e.isComplete(time.Since(since)) {
			return
		}
		pause = min(2*pause, longestPause(time.Since(begun)))
		if time.Since(begun) > lookYoung {
			pause = min(max(pause, lookShare*(collect.ProcessTime()-used)), batchFor)
		}
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

// look reads the environments of new processes of the job, at most lookMost of them. A process that
// is not a task yet has the environment of slurmstepd until it calls exec. look reads it again
// after pauses that double, lookReads times in all.
func (e *JobEnvironment) look(now time.Time) {
	e.pids = e.list(e.pids[:0])
	e.looks++
	reads := 0
	for _, pid := range e.pids {
		p, known := e.seen[pid]
		if !known {
			p.first = now
		}
		isDue := p.reads < lookReads && now.Sub(p.first) >= lookFirst<<p.reads-lookFirst
		if isDue && reads < lookMost {
			reads++
			p.reads++
			if e.read(pid) {
				p.reads = lookReads
			}
		}
		p.look = e.looks
		e.seen[pid] = p
	}
	for pid, p := range e.seen { // another process may get the pid
		if p.look != e.looks {
			delete(e.seen, pid)
		}
	}
}

// read reads the environment of one process, and reports whether it is a task of the job.
func (e *JobEnvironment) read(pid int) bool {
	text, err := e.readEnv(pid, e.text)
	if err != nil || len(text) == 0 {
		return false // the process has ended, or has not executed its program yet
	}
	e.text = text
	return e.merge(pid, environ.Parse(text))
}

// merge adds a process's environment to the Run. It reports whether the process is a task of
// the job.
func (e *JobEnvironment) merge(pid int, env environ.Env) bool {
	if !env.Number("SLURM_JOB_ID").Valid() {
		return false
	}
	e.mu.Lock() // also while the changed Run is passed on, so that Close waits for that
	defer e.mu.Unlock()
	if e.closed {
		return true
	}
	isBatch := isBatchScript(e.job.procRoot, pid, env)
	if e.batch == nil && isBatch {
		// If this fails the outcome stays what the Epilog reports.
		e.batch, _ = proc.NewExitStatus(pid)
	}
	run := e.run
	if environ.MergeTaskEnv(&run, env, isBatch) {
		e.run = run
		if err := e.changed(run); err != nil {
			e.warn(err)
		}
	}
	return true
}

// isComplete reports whether the processes of a job of this age can add nothing more.
func (e *JobEnvironment) isComplete(age time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	hasBatch := e.batch != nil || age > batchFor
	return hasBatch && e.run.Meta.JobName != ""
}

// isBatchScript reports whether a process is the first one of the task of step batch.
func isBatchScript(procRoot string, pid int, env environ.Env) bool {
	task, ok := env.Number("SLURM_TASK_PID").Get()
	if !ok || task != uint64(pid) {
		return false
	}
	step := StepOf(procRoot, pid)
	isInNoStep := step == "" && !env.Number("SLURM_STEP_ID", "SLURM_STEPID").Valid()
	return step == "batch" || isInNoStep
}

// StepOf returns the step of a process's cgroup, such as "0" or "batch"; empty if the cgroup
// belongs to no step. The environment does not show the step. A batch script inherits the step of
// the process that submitted the job.
func StepOf(procRoot string, pid int) string {
	return stepIn(filepath.Join(procRoot, strconv.Itoa(pid), "cgroup"))
}

// OwnStep is StepOf for this process. It always reads /proc, because in the procfs of another pid
// namespace another process has our pid.
func OwnStep() string { return stepIn("/proc/self/cgroup") }

func stepIn(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	path, _ := layout.ParseProcess(string(text))
	return path.Step
}
