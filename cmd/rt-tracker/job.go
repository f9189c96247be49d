package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/jobcgroup"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/slurm"
)

// jobWatch introduces the watcher of the job's cgroup to the recorder.
type jobWatch struct {
	mounts slurm.Mounts
	events chan collect.JobEvent
	quit   chan struct{}
	pumps  sync.WaitGroup

	found     chan struct{} // closed when the job's cgroup appeared for the first time
	findsOnce sync.Once

	procs  atomic.Pointer[proc.JobProcs] // told of the beginning and the end of a step
	begins chan struct{}                 // a step may begin

	mu  sync.Mutex
	job *cgroup.Job
}

// watchJob begins to watch for the job's cgroup in all places that Slurm may use.
func watchJob(run *rt.Run) (*jobWatch, error) {
	table, err := cgroup.Mounts(procRoot)
	if err != nil {
		return nil, err
	}
	w := &jobWatch{
		mounts: slurm.Mounts{V1: table.V1, V2: table.V2},
		events: make(chan collect.JobEvent),
		quit:   make(chan struct{}),
		found:  make(chan struct{}),
		begins: make(chan struct{}, 1),
	}
	if err := w.use(jobcgroup.Candidates(run, w.mounts)); err != nil {
		return nil, fmt.Errorf("watch for the cgroup of job %s: %w", run.Label(), err)
	}
	w.pumps.Go(w.meet)
	return w, nil
}

// use watches these candidates from now on.
func (w *jobWatch) use(candidates []cgroup.Candidate) error {
	job, err := cgroup.NewJob(candidates, cgroup.Options{ProcRoot: procRoot, StepBegins: w.stepBegins, StepEnds: w.stepEnds})
	if err != nil {
		return err
	}
	w.mu.Lock()
	old := w.job
	w.job = job
	w.mu.Unlock()
	w.pumps.Go(func() { w.pump(job) })
	if old != nil {
		return old.Close()
	}
	return nil
}

// stepEnds is called by the watcher's own thread, in the few milliseconds in which
// the step's slurmstepd can still say what the step's processes read and wrote.
func (w *jobWatch) stepEnds() {
	if p := w.procs.Load(); p != nil {
		p.StepEnds()
	}
}

// stepBegins is called by the watcher.
func (w *jobWatch) stepBegins() {
	select {
	case w.begins <- struct{}{}:
	default:
	}
}

// meetAfter are the pauses between looks for the slurmstepd of a step whose directory
// was made: it goes into its own some milliseconds later, and some more pass until
// it starts the step's tasks.
var meetAfter = [...]time.Duration{
	0, 2 * time.Millisecond, 4 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond,
}

// meet introduces the slurmstepds of new steps to the source of the job's processes.
func (w *jobWatch) meet() {
	var pids []int
	for {
		select {
		case <-w.quit:
			return
		case <-w.begins:
		}
		for _, pause := range meetAfter {
			select {
			case <-w.quit:
				return
			case <-time.After(pause):
			}
			if p := w.procs.Load(); p != nil {
				pids = w.current().Daemons(pids[:0])
				p.StepBegins(pids)
			}
		}
	}
}

// pump passes a job's events on. The reading of a step's end was taken by the
// watcher itself, so waiting here loses nothing.
func (w *jobWatch) pump(job *cgroup.Job) {
	for {
		select {
		case <-w.quit:
			return
		case e := <-job.Events():
			if e == cgroup.Appeared {
				w.findsOnce.Do(func() { close(w.found) })
			}
			select {
			case w.events <- jobEvent(e):
			case <-w.quit:
				return
			}
		}
	}
}

func jobEvent(e cgroup.Event) collect.JobEvent {
	switch e {
	case cgroup.Appeared:
		return collect.JobAppeared
	case cgroup.Ended:
		return collect.JobEnded
	}
	return collect.JobStepEnded
}

// Events implements collect.Job.
func (w *jobWatch) Events() <-chan collect.JobEvent { return w.events }

// Read implements collect.Job.
func (w *jobWatch) Read(s *rt.Snapshot) error { return w.current().Read(s) }

// Written implements collect.Keeper.
func (w *jobWatch) Written(s *rt.Snapshot) { w.current().Written(s) }

// Notes implements collect.Noter.
func (w *jobWatch) Notes() []rt.Event { return w.current().Notes() }

// Shed implements collect.Shedder.
func (w *jobWatch) Shed(on bool) { w.current().Shed(on) }

// Found is cgroup.Job.Found.
func (w *jobWatch) Found() (layout, path string, ok bool) { return w.current().Found() }

// Procs is cgroup.Job.Procs.
func (w *jobWatch) Procs(dst []int) []int { return w.current().Procs(dst) }

// appeared says whether the job's cgroup has been there.
func (w *jobWatch) appeared() bool {
	select {
	case <-w.found:
		return true
	default:
		return false
	}
}

// present says whether the job's cgroup is there now.
func (w *jobWatch) present() bool { return w.current().Phase() == rt.JobPresent }

func (w *jobWatch) current() *cgroup.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.job
}

// Close ends the watching.
func (w *jobWatch) Close() error {
	close(w.quit)
	err := w.current().Close()
	w.pumps.Wait()
	return err
}

// seekAfter is when a tracker begins to search all processes for its job's
// slurmstepd; seekMax is the longest pause between two searches.
const (
	seekAfter = 5 * time.Second
	seekMax   = 5 * time.Minute
)

// seek looks for the cgroup of the job's own slurmstepd while none of the known
// places has it: a layout that nobody has told us of.
func (t *tracker) seek(ctx context.Context) {
	for pause := seekAfter; ; pause = min(2*pause, seekMax) {
		select {
		case <-ctx.Done():
			return
		case <-t.job.found:
			return
		case <-time.After(pause):
		}
		t.mu.Lock()
		run := t.tracked
		t.mu.Unlock()
		c, err := slurm.StepdCgroup(procRoot, &run, t.job.mounts)
		switch {
		case errors.Is(err, slurm.ErrNoStepd):
			continue
		case err == nil:
			err = t.job.use([]cgroup.Candidate{jobcgroup.Candidate(c)})
		}
		if err != nil {
			t.writer.Event(rt.Event{Time: time.Now(), Kind: "sensor", Name: "cgroup", Status: "failed", Detail: err.Error()})
		}
	}
}
