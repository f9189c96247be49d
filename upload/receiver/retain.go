package receiver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Retain removes, now and every hour until the context ends, the runs that were finished
// longer ago than retain, and unfinished runs without an addition for that time. It calls
// fault with what could not be removed.
func (rc *Receiver) Retain(ctx context.Context, retain time.Duration, fault func(error)) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if _, err := rc.sweep(ctx, time.Now().Add(-retain)); err != nil {
			fault(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweep removes the runs that are older than the given time.
func (rc *Receiver) sweep(ctx context.Context, before time.Time) (removed int, err error) {
	entries, err := os.ReadDir(filepath.Join(rc.store.dir, "runs"))
	if err != nil {
		return 0, fmt.Errorf("look for old runs: %w", err)
	}
	var failed []error
	emptied := false
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		if !nameOfRun.MatchString(e.Name()) || e.Name()[:15] >= before.UTC().Format("20060102t150405") {
			continue // ids begin with the time of the registration
		}
		if !emptied { // a start after a crash would create the run again from the journal
			if err := rc.store.journal.empty(); err != nil {
				return removed, fmt.Errorf("remove old runs: %w", err)
			}
			emptied = true
		}
		gone, err := rc.removeOld(e.Name(), before)
		if err != nil {
			failed = append(failed, fmt.Errorf("remove run %s: %w", e.Name(), err))
		} else if gone {
			removed++
		}
	}
	return removed, errors.Join(failed...)
}

// removeOld removes a run if all its files are older than the given time. A rename makes the
// run invisible at once; its files are removed after that.
func (rc *Receiver) removeOld(id string, before time.Time) (removed bool, err error) {
	defer rc.store.lock(id)()
	if rc.store.journal.holds(id) {
		return false, nil // a later replay would create it again
	}
	dir := rc.store.runDir(id)
	for _, path := range []string{filepath.Join(dir, "run.json"), filepath.Join(dir, "objects"), dir} {
		st, err := os.Stat(path)
		if err == nil && !st.ModTime().Before(before) {
			return false, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if rc.store.quota.counts() {
		r, _ := rc.store.load(id) // a damaged run has no owner
		size := sizeOf(dir)
		defer func() {
			if removed {
				rc.store.quota.add(r.Owner, -size)
			}
		}()
	}
	away := filepath.Join(rc.store.dir, "tmp", "old-"+id)
	if err := os.Rename(dir, away); err != nil {
		return false, err
	}
	return true, os.RemoveAll(away)
}
