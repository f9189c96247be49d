package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// pauses are those between two tries to write the end of a run.
type pauses struct {
	first, longest time.Duration // each is twice the one before
	total          time.Duration // when to give up
}

// endPauses waits as long for the disk as for an Epilog (tracker.grace).
func (t *tracker) endPauses() pauses {
	return pauses{first: time.Second, longest: 30 * time.Second, total: t.cfg.Tracker.Grace.Duration}
}

// end writes how the job ended and closes the file.
func (t *tracker) end(stopped bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if layout, path, ok := t.job.Found(); ok {
		t.tracked.CgroupLayout, t.tracked.CgroupPath = layout, path
	}
	var seen environ.Evidence
	var err error
	if t.batch != nil {
		seen.Batch = t.batch.Status()
		err = t.batch.Close()
	}
	for _, s := range append(t.node, t.sources...) {
		err = errors.Join(err, s.Close())
	}
	if t.lease != nil {
		err = errors.Join(err, t.lease.Close())
	}
	err = errors.Join(err, t.job.Close(), t.finish(stopped, seen, t.endPauses()))
	if err != nil {
		t.log.Error(t.subject, err)
	}
	return nil // it is logged, and the Prolog has gone long ago
}

// endAlone ends the run while a reading hangs in the kernel, as in a driver or a dead file
// system: maybe for ever, and as long as its tracker lives no drain delivers a run. What
// is being read is left open.
func (t *tracker) endAlone(stopped bool) error {
	detail := fmt.Sprintf("a reading has not come back within %s of the end: the run ends without it", t.cfg.Tracker.Grace)
	t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "recording", Status: "failed", Detail: detail})
	err := errors.New(detail)
	t.mu.Lock()
	defer t.mu.Unlock()
	var seen environ.Evidence
	if t.batch != nil {
		seen.Batch = t.batch.Status()
	}
	t.log.Error(t.subject, errors.Join(err, t.finish(stopped, seen, t.endPauses())))
	return nil // it is logged, and the Prolog has gone long ago
}

// finish ends the run's file. While the disk is full or somebody else holds the
// file it tries again, deaf to further signals, for p.total; what is not written
// then is lost. The Epilog's word is kept once it was read, because the job's next
// Prolog removes it; one that comes while we wait is heard.
func (t *tracker) finish(stopped bool, seen environ.Evidence, p pauses) error {
	exit, known := t.heard(stopped)
	began := time.Now()
	for pause, warned := p.first, false; ; pause = min(2*pause, p.longest) {
		err := t.writer.End(t.ended(exit, seen))
		waited := time.Since(began)
		switch {
		case err == nil && warned:
			t.log.Warning(t.subject, fmt.Sprintf("the end of the run is written, after %s", waited.Round(time.Second)))
			return nil
		case err == nil || errors.Is(err, spool.ErrClosed):
			return err
		case waited >= p.total:
			if lost := t.writer.Close(); lost != nil {
				err = lost
			}
			return fmt.Errorf("the end of the run is given up after %s, rt-spool drain closes it: %w", p.total, err)
		case !warned:
			warned = true
			t.log.Warning(t.subject, fmt.Sprintf("the end of the run waits for the disk, %s at most: %v", p.total, err))
		}
		time.Sleep(min(pause, p.total-waited))
		if !known {
			exit, known = t.heard(false)
		}
	}
}

// heard is what the job's Epilog has said, or nothing but the time and false.
func (t *tracker) heard(stopped bool) (rt.Exit, bool) {
	exit, err := t.state.ReadExit(t.tracked.JobID.Or(0), t.tracked.Node, t.tracked.FileStem())
	switch {
	case err == nil:
		return exit, true
	case !errors.Is(err, os.ErrNotExist):
		t.log.Error(t.subject, err)
		return rt.Exit{Time: time.Now().UTC()}, true // the same error every time
	case stopped:
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "tracker", Name: "stop", Status: "absent",
			Detail: "told to stop without any word from an Epilog"})
	}
	return rt.Exit{Time: time.Now().UTC()}, false
}

// ended is the run with what the Epilog said and what the node saw of its end.
func (t *tracker) ended(exit rt.Exit, seen environ.Evidence) rt.Run {
	run := t.tracked
	seen.OOMKills, seen.End, seen.Limit = t.last.oomKills.Load(), t.jobEnded, run.JobEndLimit
	run.Apply(environ.Decide(exit, seen))
	run.State = rt.StateEnded
	if !t.jobEnded.IsZero() {
		run.End = t.jobEnded
	}
	if run.End.IsZero() {
		run.End = time.Now().UTC()
	}
	return run
}
