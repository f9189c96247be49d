package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/slurm/hook"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// directory shows a spool directory to a drain, which holds its lock from the
// moment that it lists the runs: not while it waits for its turn.
type directory struct {
	cfg    config.Config
	sacct  accounting
	unlock func() error // nil before
	lost   int          // runs that were closed because their trackers had died
}

// Runs implements upload.Directory. Runs whose trackers have died are closed on
// the way, and accounting completes those that have ended.
func (d *directory) Runs(ctx context.Context) ([]upload.Entry, error) {
	var err error
	if d.unlock, err = lockSpool(ctx, d.cfg.Spool.Dir); err != nil {
		return nil, err
	}
	var out []upload.Entry
	var known []ended
	err = spool.Walk(d.cfg.Spool.Dir, func(e *spool.Entry) {
		if e.Err == nil && !e.Live && e.Run.State == rt.StateRunning {
			e.Run, e.Err = d.reap(e.Path)
			if e.Live = errors.Is(e.Err, spool.ErrLive); e.Live {
				e.Err = nil
			}
		}
		if e.Err == nil && e.Run.State == rt.StateDelivered {
			return
		}
		name := filepath.Base(e.Path)
		if e.Err == nil && !e.Live && d.sacct.wants(&e.Run) {
			known = append(known, endedRun(name, &e.Run))
		}
		out = append(out, upload.Entry{Name: name, Start: e.Run.Start, Live: e.Live, Err: e.Err})
	})
	if err != nil {
		return nil, err
	}
	waiting := d.sacct.complete(ctx, d.cfg.Spool.Dir, known, time.Now())
	return slices.DeleteFunc(out, func(e upload.Entry) bool { return waiting[e.Name] }), nil
}

// lockSpool is spool.LockDir, and says who may.
func lockSpool(ctx context.Context, dir string) (func() error, error) {
	unlock, err := spool.LockDir(ctx, dir)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: run rt-spool as root or as the spool's owner", err)
	}
	return unlock, err
}

// close ends the lock.
func (d *directory) close() error {
	if d.unlock == nil {
		return nil
	}
	return d.unlock()
}

// reap closes a run whose tracker has died. What the Epilog left for the tracker
// is taken over, but the run is lost, unless accounting knows better: nobody saw
// its end.
func (d *directory) reap(path string) (run rt.Run, err error) {
	r, err := spool.Open(path)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if run = r.Run(); run.State != rt.StateRunning { // its tracker has ended it since it was looked at
		return run, nil
	}
	var exit rt.Exit
	state := hook.State{Dir: d.cfg.Tracker.StateDir}
	job, isJob := run.JobID.Get()
	boot, err := host.BootID("/proc")
	if err != nil {
		return run, err
	}
	told := false // by the job's Epilog, of this very run
	if isJob && run.BootID == boot {
		exit, err = state.ReadExit(job, run.Node, run.FileStem())
		if told = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
			return run, err
		}
		exit.Outcome, exit.Source = rt.OutcomeNone, ""
	}
	if err := r.CloseLost(exit, boot); err != nil {
		return run, fmt.Errorf("close a run whose tracker has died: %w", err)
	}
	d.lost++
	if err := d.grant(r); err != nil {
		return run, err
	}
	if told {
		// It is root's; where we are not, a later Epilog of the node removes it.
		if err := state.RemoveExit(job, run.Node); err != nil && !errors.Is(err, fs.ErrPermission) {
			return run, err
		}
	}
	return r.Run(), nil
}

// grant lets those read a run who may once it has ended, as its tracker would have.
func (d *directory) grant(r *spool.Reader) error {
	to, gid, err := d.cfg.Spool.Readers("/etc/group")
	access := spool.Access{Owner: to.Owner}
	if err == nil && to.Group != "" {
		access.Group = rt.Some(gid)
	}
	if err = errors.Join(err, r.Grant(access)); err == nil {
		return nil
	}
	return r.AddEvent(rt.Event{Time: time.Now(), Kind: "spool", Name: "access", Status: "failed", Detail: err.Error()})
}

// Open implements upload.Directory.
func (d *directory) Open(name string) (upload.Spooled, error) {
	r, err := spool.Open(filepath.Join(d.cfg.Spool.Dir, name))
	if err != nil {
		return nil, err
	}
	return forRows{r}, nil
}

// forRows reads of the snapshots what rows are derived from.
type forRows struct{ *spool.Reader }

// Scalars implements upload.Spooled.
func (r forRows) Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return r.Rates(ctx, from, to)
}

// removeOld removes what was delivered longer ago than spool.retain, and brings the
// spool within spool.quota_node.
func (d *directory) removeOld(ctx context.Context, now time.Time) (removed int, err error) {
	done, _, err := spool.Collect(ctx, d.cfg.Spool.Dir, spool.GC{
		Retain: d.cfg.Spool.Retain.Duration, Bytes: d.cfg.Spool.QuotaNode.Bytes, Now: now,
	})
	errs := []error{err}
	for _, c := range done {
		switch {
		case c.Err != nil:
			errs = append(errs, fmt.Errorf("make room in the spool: %s is not %s: %w", filepath.Base(c.Path), c.Action, c.Err))
		case c.Action == spool.Removed && c.Delivered:
			removed++
		}
	}
	return removed, errors.Join(errs...)
}
