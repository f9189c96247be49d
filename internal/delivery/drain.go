package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// Drained is the result of a drain, as a JSON document.
type Drained struct {
	upload.Summary
	Lost    int `json:"runs_closed_as_lost"` // their trackers had died
	Removed int `json:"runs_removed"`        // delivered longer ago than Directory.Retain
	AccountingResult
	Warnings []string `json:"warnings,omitempty"`
	// AnotherRuns: nothing was done because another drain holds the lock.
	AnotherRuns bool `json:"another_drain_runs"`
}

// Drain delivers all runs of the directory that have ended, under the directory's lock,
// and removes old ones. Its error is upload.Drain's or the directory's; the result is
// valid in every case.
func (dir *Directory) Drain(ctx context.Context, client upload.Client, putter upload.Putter, o upload.Options) (d Drained, err error) {
	l := &locked{Directory: dir}
	d.Summary, err = upload.Drain(ctx, l, client, putter, Format, o)
	d.Lost, d.AccountingResult = l.lost, l.accounted
	if errors.Is(err, spool.ErrLocked) {
		d.AnotherRuns = true
		return d, nil
	}
	var removeErr error
	if l.unlock != nil {
		d.Removed, removeErr = l.removeOld(context.WithoutCancel(ctx), time.Now())
	}
	return d, errors.Join(err, removeErr, l.close())
}

// Action returns what a drain would do with a file at this moment: "deliver", "close and
// deliver", "upload", "remove", "leave", or "" for nothing at all. live is whether it
// uploads runs that are still tracked.
func (dir *Directory) Action(e *spool.Entry, live bool) string {
	switch {
	case e.Err != nil:
		return "leave"
	case e.Live && live:
		return "upload"
	case e.Live:
		return "leave"
	}
	switch e.Run.State {
	case rt.StateDelivered:
		if time.Since(e.DeliveredAt) >= dir.Retain {
			return "remove"
		}
		return ""
	case rt.StateRunning:
		return "close and deliver"
	}
	return "deliver"
}
