package spool

import (
	"errors"
	"fmt"
)

// Thin reduces the file of an ended run to at most limit bytes, as far as that loses no total. It
// returns how many snapshots it dropped. Snapshots of sealed batches stay. If the tracker is alive,
// the error is ErrLive.
func (r *Reader) Thin(limit int64) (dropped int64, err error) {
	if err := r.ended("thin"); err != nil {
		return 0, err
	}
	if r.readOnly || r.version != newest() {
		return 0, fmt.Errorf("thin %s: %w", r.path, ErrReadOnly)
	}
	err = r.log.withTimeout(func() error {
		dropped, err = thinTo(r.db, limit)
		return errors.Join(err, vacuum(r.db)) // a full disk needs the space that was freed before an error, too
	})
	if err != nil {
		return dropped, fmt.Errorf("thin: %w", describe(r.path, err))
	}
	return dropped, nil
}

// vacuum returns all free pages to the file system, in steps. The journal of a step is small, which
// matters on a nearly full disk.
func vacuum(c *conn) error {
	for {
		used, size, err := usage(c)
		if err != nil || used == size {
			return err
		}
		if err := c.all(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", vacuumStep)); err != nil {
			return err
		}
		if _, now, err := usage(c); err != nil || now >= size {
			return err
		}
	}
}

// thinTo thins a database until its content has at most limit bytes.
func thinTo(c *conn, limit int64) (dropped int64, err error) {
	t := &thinner{c: c, kept: stretchKept}
	for {
		used, _, err := usage(c)
		if err != nil || used <= limit {
			return dropped, err
		}
		n, found, err := t.thinNext("spool.quota_node", keptAtLeast)
		dropped += n
		if err != nil || !found {
			return dropped, err
		}
	}
}
