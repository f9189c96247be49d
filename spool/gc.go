package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// GC sets what Collect may remove from a spool directory.
type GC struct {
	// Retain is how long a run is kept after its delivery.
	Retain time.Duration
	// Bytes limits the disk space of the directory; 0 means no limit. The limit is never more
	// than three quarters of the file system. Above it, delivered runs are removed before Retain
	// has passed, the oldest first. Then the other runs are thinned, which keeps their totals.
	Bytes int64
	// Undelivered allows the removal of runs that are not delivered and have ended or lost their
	// tracker. Their data is lost. Such a run is removed if Retain has passed since its end or,
	// without a tracker, since its last write. If the clock was set during the run, Retain must
	// have passed since both. It is also removed if the directory is still above Bytes after
	// everything else. A log with readings whose database is gone is removed if Retain has passed since its last write.
	Undelivered bool
	// DryRun makes Collect change no file, not even its version or its mark.
	DryRun bool
	Now    time.Time
}

// The actions of Collect.
const (
	Removed = "removed"
	Thinned = "thinned"
)

// Collected is one file that was removed or thinned, or would be in a dry run.
type Collected struct {
	Path      string `json:"path"`
	Run       rt.Run `json:"-"` // zero for a file that is not a run
	Delivered bool   `json:"delivered"`
	Action    string `json:"action"` // Removed or Thinned
	Reason    string `json:"reason"`
	Size      int64  `json:"size_bytes"`        // on the disk before
	Freed     int64  `json:"freed_bytes"`       // an estimate for a file that would be thinned
	Dropped   int64  `json:"snapshots_dropped"` // that were thinned
	Err       error  `json:"-"`                 // why the action failed
}

// Collect removes and thins files of a directory as o allows. The caller must hold the lock of the
// directory (LockDir). It returns the files and the disk space of the directory afterwards, in
// bytes. Runs with a live tracker and files that cannot be read are not touched. The error is about
// the directory; an error of a file is in its Collected.
func Collect(ctx context.Context, dir string, o GC) ([]Collected, int64, error) {
	c := &collector{ctx: ctx, o: o}
	err := walk(dir, !o.DryRun, func(e *Entry) {
		if e.Err == nil && !e.Live {
			// The list can be long: drop long fields that are not needed here.
			e.Run.Meta, e.Run.Command, e.Run.NodeList = rt.Metadata{}, nil, ""
			c.entries = append(c.entries, e)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	slices.SortStableFunc(c.entries, func(a, b *Entry) int { return since(a).Compare(since(b)) })
	c.total, err = dirUsage(dir)
	if err != nil {
		return nil, 0, err
	}
	c.leftovers(dir)
	c.byAge()
	if o.Bytes > 0 {
		bound, err := nodeBound(dir, o.Bytes)
		if err != nil {
			return c.done, c.total, err
		}
		c.bySize(bound)
	}
	return c.done, c.total, ctx.Err()
}

type collector struct {
	ctx     context.Context
	o       GC
	entries []*Entry // remaining runs that have ended or lost their tracker
	total   int64    // disk space of the directory, bytes
	done    []Collected
}

func delivered(e *Entry) bool { return !e.DeliveredAt.IsZero() }

// since returns the time from which Retain counts. A run that lost its tracker has no end in
// its file: the time of its last write is used.
func since(e *Entry) time.Time {
	switch {
	case delivered(e):
		return e.DeliveredAt
	case e.Run.State == rt.StateRunning || e.Run.End.IsZero():
		return e.written
	}
	return e.Run.End
}

// clockMayBeSet reports whether the wall clock was set during a run, or may have been. The run's
// end is then a time of the clock at the run's start, which may have been wrong by years.
func clockMayBeSet(path string) bool {
	r, err := openReader(path)
	if err != nil {
		return true
	}
	events, err := r.Events()
	if err := errors.Join(err, r.Close()); err != nil {
		return true
	}
	return slices.ContainsFunc(events, func(e rt.Event) bool {
		return e.Kind == "tracker" && e.Name == "clock" && e.Status == "stepped"
	})
}

func (c *collector) byAge() {
	c.entries = slices.DeleteFunc(c.entries, func(e *Entry) bool {
		needed := !delivered(e) && !c.o.Undelivered
		if needed || c.o.Now.Sub(since(e)) < c.o.Retain {
			return false
		}
		if mayBeLater := !delivered(e) && clockMayBeSet(e.Path); mayBeLater && c.o.Now.Sub(e.written) < c.o.Retain {
			return false
		}
		what := "delivered"
		switch {
		case delivered(e):
		case e.Run.State == rt.StateRunning:
			what = "its tracker died, not delivered, last written"
		default:
			what = "ended, not delivered,"
		}
		return c.remove(e, fmt.Sprintf("%s %s ago", what, c.o.Now.Sub(since(e)).Round(time.Second)))
	})
}

func (c *collector) bySize(bound int64) {
	reason := fmt.Sprintf("the spool takes %d bytes, of %d", c.total, bound)
	c.entries = slices.DeleteFunc(c.entries, func(e *Entry) bool {
		return c.total > bound && delivered(e) && c.remove(e, reason+"; delivered")
	})
	c.thin(bound, reason)
	if !c.o.Undelivered {
		return
	}
	c.entries = slices.DeleteFunc(c.entries, func(e *Entry) bool {
		return c.total > bound && c.remove(e, reason+"; not delivered")
	})
}

// thin reduces each run that has ended by the same share.
func (c *collector) thin(bound int64, reason string) {
	var sizes int64
	for _, e := range c.entries {
		if n, err := diskUsage(e.Path); err == nil && e.Run.State == rt.StateEnded {
			sizes += n
		}
	}
	excess := c.total - bound
	if excess <= 0 || sizes == 0 {
		return
	}
	share := max(0, float64(sizes-excess)/float64(sizes))
	for _, e := range c.entries {
		if c.ctx.Err() != nil || e.Run.State != rt.StateEnded {
			continue
		}
		size, err := diskUsage(e.Path)
		if err != nil || size <= endedFloor {
			continue
		}
		c.thinOne(e, size, max(endedFloor, int64(float64(size)*share)), reason)
	}
}

func (c *collector) thinOne(e *Entry, size, to int64, reason string) {
	done := Collected{Path: e.Path, Run: e.Run, Action: Thinned, Reason: reason, Size: size, Freed: size - to}
	if !c.o.DryRun {
		r, err := Open(e.Path)
		if err == nil {
			done.Dropped, err = r.Thin(to)
			err = errors.Join(err, r.Close())
		}
		now, err2 := diskUsage(e.Path)
		done.Err = errors.Join(err, err2)
		if err2 == nil {
			done.Freed = size - now
		}
		if done.Err == nil && done.Dropped == 0 && done.Freed <= 0 {
			return // nothing of it can be thinned
		}
	}
	c.total -= done.Freed
	c.done = append(c.done, done)
}

// remove removes a run; false if the run still exists.
func (c *collector) remove(e *Entry, reason string) bool {
	if c.ctx.Err() != nil {
		return false
	}
	done := Collected{Path: e.Path, Delivered: delivered(e), Action: Removed, Reason: reason}
	for _, p := range []string{e.Path, e.Path + "-wal", e.Path + "-shm"} {
		n, _ := diskUsage(p) // a file that does not exist takes no space
		done.Size += n
	}
	done.Run, done.Err = c.removeOne(e)
	if done.Err == nil {
		done.Freed = done.Size
		c.total -= done.Freed
	}
	c.done = append(c.done, done)
	return done.Err == nil
}

// removeOne removes a run's file and returns its entry.
func (c *collector) removeOne(e *Entry) (rt.Run, error) {
	if c.o.DryRun && e.Run.Node != "" {
		return e.Run, nil
	}
	open := Open
	if c.o.DryRun {
		open = openReader
	}
	r, err := open(e.Path)
	if err != nil {
		return e.Run, err
	}
	run := r.Run()
	err = stillDelivered(e, r)
	if err == nil && !c.o.DryRun {
		return run, r.Remove()
	}
	if errors.Is(err, ErrUndelivered) && e.Run.Node == "" && !c.o.DryRun { // the entry came from a mark
		err = errors.Join(err, unmark(e.Path))
	}
	return run, errors.Join(err, r.Close())
}

// stillDelivered returns an error if a run is no longer marked as delivered, although it was when
// it was listed. A user has then requested a new delivery.
func stillDelivered(e *Entry, r *Reader) error {
	if !delivered(e) {
		return nil
	}
	at, err := r.Delivery().DeliveredAt()
	if err != nil || !at.IsZero() {
		return err
	}
	return fmt.Errorf("%s: %w; the next drain delivers it", e.Path, ErrUndelivered)
}
