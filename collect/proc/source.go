package proc

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// named is the name of a source.
type named string

// Name is the name of the source in the ledger.
func (n named) Name() string { return string(n) }

// File is a source that reads one file.
type File struct {
	named
	file
	parse func(b []byte, s *rt.Snapshot) error
}

// Read fills the part of s that the file has.
func (f *File) Read(s *rt.Snapshot) error {
	b, err := f.read()
	if err != nil {
		return err
	}
	if err := f.parse(b, s); err != nil {
		return fmt.Errorf("parse %s: %w", f.path, err)
	}
	return nil
}

// identityEvery is the number of readings after which the data of a device that seldom
// changes (its link state, its size) is read again.
const identityEvery = 60

// countdown counts the readings until the data that seldom changes is read again.
type countdown int

// isDue is called once for each reading.
func (c *countdown) isDue() bool {
	isDue := *c == 0
	if isDue {
		*c = identityEvery
	}
	*c--
	return isDue
}

// retryBackoff remembers that this node lacks the files of a source, so that most
// readings skip the attempt: a node without InfiniBand seldom gets it.
type retryBackoff struct {
	err   error
	wait  int // readings until the next attempt
	until int // readings until the files are listed again
}

// pending returns the error of the last attempt, nil if this reading is to try again.
func (r *retryBackoff) pending() error {
	if r.wait == 0 {
		return nil
	}
	r.wait--
	return r.err
}

// note records the result of an attempt and returns it.
func (r *retryBackoff) note(err error) error {
	if err != nil {
		r.err, r.wait = err, identityEvery
	}
	return err
}

// list calls discover, which lists the files, if that is due.
func (r *retryBackoff) list(discover func() error) error {
	if err := r.pending(); err != nil {
		return err
	}
	if r.until == 0 {
		if err := r.note(discover()); err != nil {
			return err
		}
		r.until = identityEvery
	}
	r.until--
	return nil
}
