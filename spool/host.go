package spool

import "github.com/resource-tracker/rt"

// UpdateHost replaces the description of the machine, parts of which arrive late. The run's
// tracker may be alive.
func (r *Reader) UpdateHost(h rt.Host) error {
	err := r.change("update the description of the machine", func() error {
		columns := hostColumns(&h)
		_, err := r.db.change(updateSQL("host", columns), values(columns)...)
		return err
	})
	if err == nil {
		r.host = h
	}
	return err
}
