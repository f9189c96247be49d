package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/layout"
)

// jobWatch introduces the watcher of the job's cgroup to the recorder.
type jobWatch struct {
	trees *jobTrees // of a job without a cgroup; set before anything is read

	mounts cgroupfs.Mounts
	events chan collect.JobEvent
	quit   chan struct{}
	pumps  sync.WaitGroup
	warn   func(error)

	found     chan struct{} // closed when the job's cgroup appeared for the first time
	findsOnce sync.Once
	begun     chan struct{} // says that a step has begun since this was received last

	procs atomic.Pointer[proc.JobProcs] // told of the beginning and the end of a step

	mu  sync.Mutex
	job *cgroup.Job
}

// watchJob begins to watch for the job's cgroup in all places that Slurm may use. warn
// is told, on another goroutine, of a fault that ends the events.
func watchJob(run *rt.Run, warn func(error)) (*jobWatch, error) {
	mounts, err := cgroupfs.ReadMounts(procRoot)
	if err != nil {
		return nil, err
	}
	w := &jobWatch{
		mounts: mounts,
		events: make(chan collect.JobEvent),
		quit:   make(chan struct{}),
		found:  make(chan struct{}),
		begun:  make(chan struct{}, 1),
		warn:   warn,
	}
	if err := w.use(layout.Candidates(run, w.mounts)); err != nil {
		return nil, fmt.Errorf("watch for the cgroup of job %s: %w", run.Label(), err)
	}
	return w, nil
}

// use watches these candidates from now on.
func (w *jobWatch) use(candidates []cgroupfs.Candidate) error {
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
func (w *jobWatch) stepEnds(step string, stepds []int) {
	if p := w.procs.Load(); p != nil {
		p.StepEnds(step, stepds)
	}
}

// stepBegins is called by the watcher's own thread too: a polite one would come to
// the slurmstepd of a short step when that is gone.
func (w *jobWatch) stepBegins(stepds []int) {
	w.tellBegun()
	if p := w.procs.Load(); p != nil {
		p.StepBegins(stepds)
	}
}

// tellBegun lets the job's processes be looked at again: there are new ones.
func (w *jobWatch) tellBegun() {
	select {
	case w.begun <- struct{}{}:
	default: // nobody has heard of the step before yet
	}
}

// pump passes a job's events on. The reading of a step's end was taken by the
// watcher itself, so waiting here loses nothing.
func (w *jobWatch) pump(job *cgroup.Job) {
	defer recovery.Handle(w.warn)
	for {
		select {
		case <-w.quit:
			return
		case e := <-job.Events():
			switch p := w.procs.Load(); {
			case e == collect.JobAppeared:
				beOnTime(job.Thread())
				w.findsOnce.Do(func() { close(w.found) })
			case e == collect.JobShort && p != nil:
				p.Hurry()
			}
			select {
			case w.events <- e:
			case <-w.quit:
				return
			}
		}
	}
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

// counted is the job's cgroup as perf_event_open(2) knows it: of version 2, or the
// same path in version 1's hierarchy perf_event.
func (w *jobWatch) counted() (dir string, ok bool) {
	_, path, ok := w.Found()
	if !ok || !w.present() {
		return "", false
	}
	for _, mount := range w.mounts.V1 {
		if below, in := strings.CutPrefix(path, mount+"/"); in && mount != "" {
			return filepath.Join(cmp.Or(w.mounts.V1["perf_event"], w.mounts.V2), below), true
		}
	}
	return path, true
}

// Procs is cgroup.Job.Procs, or lists the processes of a job without a cgroup.
func (w *jobWatch) Procs(dst []int) []int {
	if w.trees != nil && !w.appeared() {
		return w.trees.PIDs(dst)
	}
	return w.current().Procs(dst)
}

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
		c, err := layout.StepdCgroup(procRoot, &run, t.job.mounts)
		switch {
		case errors.Is(err, layout.ErrNoStepd):
			continue
		case err == nil:
			err = t.job.use([]cgroupfs.Candidate{c})
		}
		if err != nil {
			t.writer.Event(rt.Event{Time: time.Now(), Kind: "sensor", Name: "cgroup", Status: "failed", Detail: err.Error()})
		}
	}
}
