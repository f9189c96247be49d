package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/tracker"
	"github.com/resource-tracker/rt/slurm/environ"
)

// endRetry returns when to retry the write that ends the run. The retries end after the time for
// which the tracker waits for an Epilog (tracker.grace).
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
	err = errors.Join(err, t.job.Close(), t.finish(stopped, seen, t.endRetry()))
	if err != nil {
		t.log.Error(err.Error())
	}
}

// endWithoutReading ends the run while a reading hangs in the kernel, possibly for ever. It does
// not wait for the reading: a drain does not deliver the run until the tracker has exited. The
// sources stay open, because the reading still uses them.
func (t *jobTracker) endWithoutReading(stopped bool) {
	detail := fmt.Sprintf("a reading has not come back within %s of the end: the run ends without it", t.cfg.Tracker.Grace)
	t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "recording", Status: "failed", Detail: detail})
	seen := environ.Evidence{Batch: t.environment.BatchStatus()}
	err := t.environment.Close()
	t.log.Error(errors.Join(errors.New(detail), err, t.finish(stopped, seen, t.endRetry())).Error())
}

// finish ends the run's file. It ignores further signals. If the Epilog has not yet written its
// file with the exit, each retry looks for that file again. When the file has been read, finish
// keeps the exit in memory, because the job's next Prolog removes the file.
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
	return tracker.EndRun(t.writer, ended, retry, func(message string) { t.log.Warn(message) })
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
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "stop", Status: "absent",
			Detail: "stopped by a signal, and no Epilog has written how the job ended"})
	}
	return rt.Exit{Time: time.Now().UTC()}, false
}
