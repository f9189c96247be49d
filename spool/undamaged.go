package spool

import (
	"errors"
	"iter"

	"github.com/resource-tracker/rt"
)

// IsDamage reports whether err is about the content of a spool file.
func IsDamage(err error) bool { return errors.Is(err, ErrDamaged) || errors.Is(err, ErrLimit) }

// Undamaged returns the snapshots before the first one that cannot be read, and passes that error to note.
func Undamaged(snapshots iter.Seq2[*rt.Snapshot, error], note func(error)) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		for s, err := range snapshots {
			if IsDamage(err) {
				note(err)
				return
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
