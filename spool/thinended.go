package spool

import (
	"errors"
	"fmt"
)

// Thin reduces the file of an ended run to at most limit bytes, as far as that is possible
// without losing a total, and returns how many snapshots it dropped. Snapshots of sealed
// batches stay. If the tracker is alive, the error is ErrLive.
func (r *Reader) Thin(limit int64) (dropped int64, err error) {
	if err := r.ended("thin"); err != nil {
		return 0, err
	}
	if r.readOnly || r.version != newest() {
		return 0, fmt.Errorf("thin %s: %w", r.path, ErrReadOnly)
	}
	err = r.withTimeout(func() error {
		dropped, err = r.thin(limit)
		return errors.Join(err, vacuum(r.db)) // a full disk needs the space that was freed before an error, too
	})
	if err != nil {
		return dropped, fmt.Errorf("thin: %w", describe(r.path, err))
	}
	return dropped, nil
}

// vacuum returns all free pages to the file system, in steps: the journal of a step is small,
// which matters on a disk that is nearly full.
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

// coarser lists the factors by which the distance of snapshots can grow further, if the file
// of an ended run is still too large with stretches of about 128 rows.
var coarser = []int64{2, 4, 8}

func (r *Reader) thin(limit int64) (dropped int64, err error) {
	t, err := newThinner(r.db, r.path)
	if err != nil {
		return 0, err
	}
	stuck := map[stretch]bool{}
	for {
		pairs, err := plan(r.db, stuck)
		if err != nil {
			return dropped, err
		}
		if len(pairs) == 0 {
			break
		}
		n, small, err := t.thinAll(pairs, limit, stuck)
		dropped += n
		if small || err != nil {
			return dropped, err
		}
	}
	for _, t.coarse = range coarser {
		starts, err := stretches(r.db)
		if err != nil {
			return dropped, err
		}
		var list []stretch
		for i := range len(starts) - 1 {
			list = append(list, stretch{starts[i], starts[i+1]})
		}
		n, small, err := t.thinAll(list, limit, stuck)
		dropped += n
		if small || err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// thinAll thins one stretch after the other until the size of the content is at most limit;
// small reports whether it is. Stretches that cannot be thinned are added to stuck.
func (t *thinner) thinAll(list []stretch, limit int64, stuck map[stretch]bool) (dropped int64, small bool, err error) {
	for _, s := range list {
		used, _, err := usage(t.r.db)
		if err != nil || used <= limit {
			return dropped, err == nil, err
		}
		n, err := t.thinStretch(s, "spool.quota_node")
		if err != nil {
			return dropped, false, err
		}
		stuck[s] = n == 0
		dropped += n
	}
	return dropped, false, nil
}
