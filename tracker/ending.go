package tracker

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// Retry is the series of pauses between the attempts to write the end of a run.
type Retry struct {
	First, Longest time.Duration // each pause is twice the one before
	Total          time.Duration // time after which no further attempt is made
}

// EndRun writes the end of a run's file. While the disk is full or another process holds the
// file it retries for r.Total. run is called before each attempt, warn when attempts begin to
// fail and when one succeeds after that.
func EndRun(w *spool.Writer, run func() rt.Run, r Retry, warn func(string)) error {
	began := time.Now()
	for pause, warned := r.First, false; ; pause = min(2*pause, r.Longest) {
		err := w.End(run())
		waited := time.Since(began)
		switch {
		case err == nil && warned:
			warn(fmt.Sprintf("the end of the run is written, after %s", waited.Round(time.Second)))
			return nil
		case err == nil || errors.Is(err, spool.ErrClosed):
			return err
		case waited >= r.Total:
			if lost := w.Close(); lost != nil {
				err = lost
			}
			return fmt.Errorf("the end of the run is given up after %s, rt-spool drain closes it: %w", r.Total, err)
		case !warned:
			warned = true
			warn(fmt.Sprintf("the end of the run waits for the disk, %s at most: %v", r.Total, err))
		}
		time.Sleep(min(pause, r.Total-waited))
	}
}

// Ended returns the run with its end, from its exit and what the node recorded. spool.Writer.End
// sets the time of the end to the time of the last snapshot.
func Ended(run rt.Run, exit rt.Exit, seen environ.Evidence) rt.Run {
	run.Apply(environ.Decide(exit, seen))
	run.State = rt.StateEnded
	run.End = time.Time{}
	return run
}

// absentMax is how long a tracker waits for a job without a known time limit.
const absentMax = 24 * time.Hour

// AbsentFor returns how long a tracker waits for a job without a cgroup, as on a node where Slurm
// uses none. It waits until limit, when the job must have ended, plus grace.
func AbsentFor(now, limit time.Time, grace time.Duration) time.Duration {
	if limit.IsZero() {
		return absentMax
	}
	return max(limit.Sub(now), 0) + grace
}

// OOMKills counts the processes that the kernel killed for their memory: in a step of srun, or else
// in the job since the first reading. Step is set before the first Put.
type OOMKills struct {
	Step          string
	first, newest atomic.Uint64
	seen          bool
}

// Put implements collect.Sink.
func (k *OOMKills) Put(s *rt.Snapshot) error {
	if _, err := strconv.ParseUint(k.Step, 10, 32); err == nil {
		for i := range s.Steps {
			if r := &s.Steps[i]; r.Step == k.Step && !r.Task.Valid() {
				k.newest.Store(max(k.newest.Load(), r.EventsOOMKill.Or(0)))
			}
		}
		return nil
	}
	n, ok := s.Job.EventsOOMKill.Get()
	if !ok {
		return nil
	}
	if !k.seen {
		k.first.Store(n)
		k.seen = true
	}
	k.newest.Store(n)
	return nil
}

// Count returns the number of killed processes.
func (k *OOMKills) Count() uint64 { return k.newest.Load() - k.first.Load() }
