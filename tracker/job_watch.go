// Package tracker contains the code that rt-tracker and resource-tracker share. It also has code of
// either program that can be tested without a command line. It watches a job's cgroup and the
// environment of its processes, sets the tracker's own memory and priority, makes the samples and
// ends a run. It links no network code.
package tracker

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

// JobWatch watches a job's cgroup for a recorder. The cgroup does not have to exist yet.
type JobWatch struct {
	procRoot string
	mounts   cgroupfs.Mounts
	reused   func(dir string) bool // see cgroup.Options.MayBeReused
	trees    *ProcessTrees         // of a job without a cgroup; nil before UseTrees
	events   chan collect.JobEvent
	quit     chan struct{}
	pumps    sync.WaitGroup
	warn     func(error)

	found     chan struct{} // closed when the job's cgroup appeared for the first time
	foundOnce sync.Once
	begun     chan struct{} // has a value when a step has begun since the last receive

	procs atomic.Pointer[proc.JobProcs] // notified of the beginning and the end of a step

	mu  sync.Mutex
	job *cgroup.Job
}

// WatchJob starts to watch all directories that Slurm may use for the job's cgroup. procRoot is
// the mount point of procfs. hasBegun reports whether the job may have begun, see cgroup.Options. If an
// error ends the events, another goroutine passes it to warn.
func WatchJob(run *rt.Run, procRoot string, hasBegun func() bool, warn func(error)) (*JobWatch, error) {
	mounts, err := cgroupfs.ReadMounts(procRoot)
	if err != nil {
		return nil, err
	}
	w := newJobWatch(procRoot, warn)
	w.mounts, w.reused = mounts, mayBeReused(run)
	if err := w.watch(layout.Candidates(run, w.mounts), hasBegun); err != nil {
		return nil, fmt.Errorf("watch for the cgroup of job %s: %w", run.Label(), err)
	}
	return w, nil
}

// mayBeReused returns cgroup.Options.MayBeReused for a run. A second attempt can have the directory
// of the first, but not if the SLUID names the directory: each attempt has another SLUID.
func mayBeReused(run *rt.Run) func(dir string) bool {
	attempt, sluid := run.Attempt, run.SLUID
	return func(dir string) bool { return attempt > 0 && filepath.Base(dir) != sluid }
}

func newJobWatch(procRoot string, warn func(error)) *JobWatch {
	return &JobWatch{
		procRoot: procRoot,
		events:   make(chan collect.JobEvent),
		quit:     make(chan struct{}),
		found:    make(chan struct{}),
		begun:    make(chan struct{}, 1),
		warn:     warn,
	}
}

// UseTrees sets the source that lists the processes of a job without a cgroup. It must be
// called before the first reading.
func (w *JobWatch) UseTrees(trees *ProcessTrees) {
	trees.stepBegun = w.noteStep
	w.trees = trees
}

// UseProcs sets the source that is notified of the beginning and the end of each step.
func (w *JobWatch) UseProcs(procs *proc.JobProcs) { w.procs.Store(procs) }

// watch replaces the watched directories by candidates. hasBegun is nil after the job has begun.
func (w *JobWatch) watch(candidates []cgroupfs.Candidate, hasBegun func() bool) error {
	job, err := cgroup.NewJob(candidates, layout.Slurm{}, cgroup.Options{
		ProcRoot: w.procRoot, StepBegins: w.stepBegins, StepEnds: w.stepEnds, Raise: raiseForReading, HasBegun: hasBegun, MayBeReused: w.reused,
	})
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

// stepEnds runs on the watcher's own thread. The I/O counters of the step's processes can be read
// from its slurmstepd for only a few milliseconds.
func (w *JobWatch) stepEnds(step string, stepds []int) {
	if p := w.procs.Load(); p != nil {
		p.StepEnds(step, stepds)
	}
}

// stepBegins runs on the watcher's thread. A thread of low priority might run only after a short
// step has ended.
func (w *JobWatch) stepBegins(stepds []int) {
	w.noteStep()
	if p := w.procs.Load(); p != nil {
		p.StepBegins(stepds)
	}
}

// noteStep makes JobEnvironment look at the job's processes again.
func (w *JobWatch) noteStep() {
	select {
	case w.begun <- struct{}{}:
	default: // the previous step has not been received yet
	}
}

// pump forwards the events of job. It may block, because the watcher itself takes the reading at
// the end of a step.
func (w *JobWatch) pump(job *cgroup.Job) {
	defer recovery.Handle(w.warn)
	for {
		select {
		case <-w.quit:
			return
		case e := <-job.Events():
			switch p := w.procs.Load(); {
			case e == collect.JobAppeared:
				raiseThread(job.Thread())
				w.foundOnce.Do(func() { close(w.found) })
			case e == collect.JobNearLimit && p != nil:
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
func (w *JobWatch) Events() <-chan collect.JobEvent { return w.events }

// Read implements collect.Job.
func (w *JobWatch) Read(s *rt.Snapshot) error { return w.current().Read(s) }

// Written implements collect.Acknowledger.
func (w *JobWatch) Written(s *rt.Snapshot) { w.current().Written(s) }

// Notes implements collect.EventSource.
func (w *JobWatch) Notes() []rt.Event { return w.current().Notes() }

// SkipSteps implements collect.StepSkipper.
func (w *JobWatch) SkipSteps(on bool) { w.current().SkipSteps(on) }

// Found returns the layout and the path of the job's cgroup, see cgroup.Job.Found.
func (w *JobWatch) Found() (layout, path string, ok bool) { return w.current().Found() }

// PerfCgroup returns the directory of the job's cgroup for perf_event_open(2). With cgroup v2
// it is the job's cgroup itself, with v1 the same path in the hierarchy perf_event.
func (w *JobWatch) PerfCgroup() (dir string, ok bool) {
	_, path, ok := w.Found()
	if !ok || !w.Present() {
		return "", false
	}
	for _, mount := range w.mounts.V1 {
		if below, in := strings.CutPrefix(path, mount+"/"); in && mount != "" {
			return filepath.Join(cmp.Or(w.mounts.V1["perf_event"], w.mounts.V2), below), true
		}
	}
	return path, true
}

// Procs appends the pids of the job's processes to dst, even if the job has no cgroup.
func (w *JobWatch) Procs(dst []int) []int {
	if w.trees != nil && !w.Appeared() {
		return w.trees.PIDs(dst)
	}
	return w.current().Procs(dst)
}

// Appeared reports whether the job's cgroup has existed at any time.
func (w *JobWatch) Appeared() bool {
	select {
	case <-w.found:
		return true
	default:
		return false
	}
}

// Present reports whether the job's cgroup exists now.
func (w *JobWatch) Present() bool { return w.current().Phase() == rt.JobPresent }

// Thread returns the id of the thread that takes the job's last readings.
func (w *JobWatch) Thread() int { return w.current().Thread() }

func (w *JobWatch) current() *cgroup.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.job
}

// Close ends the watch.
func (w *JobWatch) Close() error {
	close(w.quit)
	err := w.current().Close()
	w.pumps.Wait()
	return err
}

// Search looks for the job's slurmstepd among all processes, first after searchAfter, and then
// after pauses that double up to searchMax.
const (
	searchAfter = 5 * time.Second
	searchMax   = 5 * time.Minute
)

// Search finds a job's cgroup in a layout that this program does not know: it looks for the job's
// slurmstepd and watches its cgroup. It returns when the job's cgroup has appeared or ctx is
// done. run returns the current Run; note is called with errors.
func (w *JobWatch) Search(ctx context.Context, run func() rt.Run, note func(rt.Event)) {
	for pause := searchAfter; ; pause = min(2*pause, searchMax) {
		select {
		case <-ctx.Done():
			return
		case <-w.found:
			return
		case <-time.After(pause):
		}
		tracked := run()
		c, err := layout.StepdCgroup(w.procRoot, &tracked, w.mounts)
		switch {
		case errors.Is(err, layout.ErrNoStepd):
			continue
		case err == nil:
			err = w.watch([]cgroupfs.Candidate{c}, nil)
		}
		if err != nil {
			note(rt.Event{Kind: "sensor", Name: "cgroup", Status: "failed", Detail: err.Error()})
		}
	}
}
