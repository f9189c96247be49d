package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm/environ"
)

// The pauses between two looks at the job's processes: short at first, because a
// step may be over in a fraction of a second, and then a part of the time for which
// no step has begun: the next one says so.
const (
	learnFirst  = 2 * time.Millisecond
	learnSoon   = 25 * time.Millisecond // the longest pause in a step's first two seconds,
	learnYoung  = 2 * time.Second
	learnPart   = 16               // and then this part of its age, but
	learnSeldom = 10 * time.Second // never longer
	batchFor    = time.Minute      // a job that has no batch script by then has none
)

// maxEnviron bounds what is read of one process's environment, in bytes.
const maxEnviron = 256 << 10

// learn takes what no hook is told (the job's name, its array ids) from the
// environment of the job's own processes, and finds its batch script.
func (t *tracker) learn(ctx context.Context) {
	l := learner{tracker: t, seen: map[int]bool{}, environ: make([]byte, 0, 8<<10)}
	select {
	case <-ctx.Done():
		return
	case <-t.job.found:
	case <-t.job.trees.met:
	}
	since := time.Now()
	for begun, pause := since, learnFirst; ; {
		l.look()
		if t.known(time.Since(since)) {
			return
		}
		pause = min(2*pause, longestPause(time.Since(begun)))
		select {
		case <-ctx.Done():
			return
		case <-t.job.begun:
			if !t.named() {
				begun, pause = time.Now(), learnFirst
			}
		case <-time.After(pause):
		}
	}
}

// longestPause is that after a time in which no step has begun.
func longestPause(age time.Duration) time.Duration {
	if age <= learnYoung {
		return learnSoon
	}
	return min(age/learnPart, learnSeldom)
}

// learner remembers which processes it has asked.
type learner struct {
	tracker *tracker
	pids    []int
	seen    map[int]bool // pids that said all they know
	environ []byte
}

// look asks the job's processes that are new.
func (l *learner) look() {
	l.pids = l.tracker.job.Procs(l.pids[:0])
	for _, pid := range l.pids {
		if l.seen[pid] {
			continue
		}
		env, err := l.read(pid)
		if err != nil || len(env) == 0 {
			continue // it has ended, or has not begun its program yet
		}
		if l.tracker.hear(pid, env) {
			l.seen[pid] = true
		}
	}
}

func (l *learner) read(pid int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("%s/%d/environ", procRoot, pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l.environ = l.environ[:0]
	for len(l.environ) < maxEnviron {
		if len(l.environ) == cap(l.environ) {
			l.environ = append(l.environ, 0)[:len(l.environ)]
		}
		n, err := f.Read(l.environ[len(l.environ):cap(l.environ)])
		l.environ = l.environ[:len(l.environ)+n]
		if err != nil || n == 0 {
			break
		}
	}
	return l.environ, nil
}

// hear takes over what one process says, and says whether it is one of the job's
// tasks: a slurmstepd that has yet to begin its task shows another environment.
func (t *tracker) hear(pid int, text []byte) bool {
	env := environ.NewEnv(splitNul(text))
	if !env.Number("SLURM_JOB_ID").Valid() {
		return false
	}
	t.mu.Lock()
	run := t.tracked
	run.Meta.Tags = cloneTags(run.Meta.Tags)
	changed := environ.MergeTaskEnv(&run, text)
	if changed {
		t.tracked = run
	}
	if t.batch == nil && isBatchScript(pid, env) {
		// Without it the outcome stays what the Epilog says.
		t.batch, _ = proc.NewExitStatus(pid)
	}
	t.mu.Unlock()
	if changed {
		if err := t.writer.UpdateRun(run); err != nil {
			t.log.Warning(t.subject, err.Error())
		}
	}
	return true
}

// named says whether the job has told its name.
func (t *tracker) named() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tracked.Meta.JobName != ""
}

// known says whether a job of this age has nothing more to tell: its name is
// there, and its batch script where it has one.
func (t *tracker) known(age time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tracked.Meta.JobName != "" && (t.batch != nil || age > batchFor)
}

// isBatchScript recognises the process that slurmstepd started for the batch
// step: its task's pid is its own, and it belongs to no numbered step.
func isBatchScript(pid int, env environ.Env) bool {
	task, ok := env.Number("SLURM_TASK_PID").Get()
	return ok && task == uint64(pid) && !env.Number("SLURM_STEP_ID", "SLURM_STEPID").Valid()
}

func splitNul(b []byte) []string {
	var out []string
	for start := 0; start < len(b); {
		end := start
		for end < len(b) && b[end] != 0 {
			end++
		}
		out = append(out, string(b[start:end]))
		start = end + 1
	}
	return out
}

func cloneTags(tags map[string]string) map[string]string {
	out := make(map[string]string, len(tags))
	for k, v := range tags {
		out[k] = v
	}
	return out
}
