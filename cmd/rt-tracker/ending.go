package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/tracker"
)

// endRetry returns the retries of the write that ends the run. They last as long as the wait
// for an Epilog (tracker.grace).
func (t *jobTracker) endRetry() tracker.Retry {
	return tracker.Retry{First: time.Second, Longest: 30 * time.Second, Total: t.cfg.Tracker.Grace.Duration}
}

// end writes how the job ended and closes the sources and the file. It logs errors.
func (t *jobTracker) end(stopped bool) {
	layout, path, found := t.job.Found()
	if found {
		t.layout, t.path = layout, path
	}
	seen := environ.Evidence{Batch: t.environment.BatchStatus()}
	err := t.environment.Close()
	for _, s := range append(t.node, t.sources...) {
		err = errors.Join(err, s.Close())
	}
	if t.cache != nil {
		err = errors.Join(err, t.cache.Close())
	}
	// The Epilog waits until the run is closed. The kernel then takes some 15 ms to close the inotify
	// descriptor of the job watch.
	err = errors.Join(err, t.finish(stopped, seen, t.endRetry()), t.job.Close())
	if err != nil {
		t.log.Error(err.Error())
	}
}

// endWithoutReading ends the run while a reading hangs in the kernel, possibly for ever. It does
// not wait for the reading, because a drain delivers no run of a living tracker. The sources
// stay open, because the reading still uses them.
func (t *jobTracker) endWithoutReading(stopped bool) {
	detail := fmt.Sprintf("a reading has not come back within %s of the end: the run ends without it", t.cfg.Tracker.Grace)
	t.writer.Event(rt.Event{Kind: "tracker", Name: "recording", Status: "failed", Detail: detail})
	seen := environ.Evidence{Batch: t.environment.BatchStatus()}
	err := t.environment.Close()
	t.log.Error(errors.Join(errors.New(detail), err, t.finish(stopped, seen, t.endRetry())).Error())
}

// finish ends the run's file. It ignores further signals. Each retry reads the file that the Epilog
// writes, until it exists. From then on finish uses the exit that it has read, because the job's
// next Prolog removes the file.
func (t *jobTracker) finish(stopped bool, seen environ.Evidence, retry tracker.Retry) error {
	seen.OOMKills, seen.End = t.last.oomKills.Load(), t.jobEnded
	exit, known := t.readExit(stopped)
	isRetry := false
	ended := func() rt.Run {
		if isRetry && !known {
			exit, known = t.readExit(false)
		}
		isRetry = true
		run := t.environment.Run()
		if t.path != "" {
			run.CgroupLayout, run.CgroupPath = t.layout, t.path
		}
		seen.Limit = run.JobEndLimit
		return tracker.Ended(run, exit, seen)
	}
	return tracker.EndRun(t.writer.Writer(), ended, retry, func(message string) { t.log.Warn(message) })
}

// whyEnded returns collect.ErrJobEnded if the job's Epilog has written its exit, else nil. Slurm can leave the cgroup of a
// job that has ended.
func (t *jobTracker) whyEnded() error {
	_, err := t.state.ReadExit(t.id.JobID.Or(0), t.id.Node, t.id.FileStem())
	if err != nil {
		return nil // finish logs it
	}
	return collect.ErrJobEnded
}

// noteMissedJob records that the job's Epilog came before this tracker began.
func (t *jobTracker) noteMissedJob() {
	if _, err := t.state.ReadExit(t.id.JobID.Or(0), t.id.Node, t.id.FileStem()); err != nil {
		return
	}
	t.writer.Event(rt.Event{Kind: "job", Name: "tracker", Status: "missed",
		Detail: "the job ended before its tracker began, " + time.Since(t.id.Start).Round(time.Millisecond).String() + " after its Prolog: its resource usage is not recorded"})
}

// readExit returns the exit that the job's Epilog has written. If there is none, it returns an
// exit with only the time, and false.
func (t *jobTracker) readExit(stopped bool) (rt.Exit, bool) {
	exit, err := t.state.ReadExit(t.id.JobID.Or(0), t.id.Node, t.id.FileStem())
	switch {
	case err == nil:
		return exit, true
	case !errors.Is(err, os.ErrNotExist):
		t.log.Error(err.Error())
		return rt.Exit{Time: time.Now().UTC()}, true // a retry would get the same error
	case stopped:
		t.writer.Event(rt.Event{Kind: "tracker", Name: "stop", Status: "absent",
			Detail: "stopped by a signal, and no Epilog has written how the job ended"})
	}
	return rt.Exit{Time: time.Now().UTC()}, false
}
