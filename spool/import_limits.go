package spool

import (
	"errors"
	"fmt"

	"github.com/resource-tracker/rt"
)

// ErrImport means that an import would make more than its limits allow.
var ErrImport = errors.New("the import is too large")

// ImportLimits bounds what an import makes: a small file can name many jobs and hosts, each of
// which becomes a file. A nil pointer means no limit.
type ImportLimits struct {
	Runs  int   // how many
	Bytes int64 // of all of them on the disk

	made int
	used int64  // by runs that are complete
	last string // path of the newest run
}

// Check returns an error if runs cannot be made, before any is.
func (l *ImportLimits) Check(runs int) error {
	if l == nil || l.made+runs <= l.Runs {
		return nil
	}
	return fmt.Errorf("%w: it has %d runs, a file each, and the limit is %d: --max-runs raises it", ErrImport, l.made+runs, l.Runs)
}

// Create is the function Create within the limits. Put of the Writer returns an error when the
// files of the import take more than Bytes.
func (l *ImportLimits) Create(dir string, run rt.Run, host rt.Host, opts Options) (*Writer, error) {
	if l == nil {
		return Create(dir, run, host, opts)
	}
	if err := l.Check(1); err != nil {
		return nil, err
	}
	l.used += blocksOf(l.last)
	l.last = ""
	opts.maxBytes, opts.importBytes = l.Bytes-l.used, l.Bytes
	if opts.maxBytes <= 0 {
		return nil, errBytes(l.Bytes)
	}
	w, err := Create(dir, run, host, opts)
	if err == nil {
		l.made++
		l.last = w.Path()
	}
	return w, err
}

func errBytes(limit int64) error {
	return fmt.Errorf("%w: it takes more than %d MiB: --max-size raises the limit", ErrImport, limit>>20)
}

// tooLarge returns an error if the file takes more than the import may.
func (w *Writer) tooLarge() error {
	if limit := w.opts.maxBytes; limit > 0 && blocksOf(w.path) > limit {
		return errBytes(w.opts.importBytes)
	}
	return nil
}
