package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/resource-tracker/rt"
)

// ErrImport means that an import would create more runs or bytes than its limits allow.
var ErrImport = errors.New("the import is too large")

// ImportLimits limits the runs that an import creates: a small file can name many jobs and hosts,
// and each of them becomes a file. A nil pointer means no limit.
type ImportLimits struct {
	Runs  int   // maximum number of runs
	Bytes int64 // maximum disk space of all runs

	made int
	used int64  // by runs that are complete
	last string // path of the newest run
}

// Check returns an error if the import may not create so many further runs in dir. A caller that
// knows their number calls it before it creates the first one. run returns one of the runs: those
// that are in dir already do not count, because an import does not change them.
func (l *ImportLimits) Check(dir string, runs int, run func(i int) rt.Run) error {
	if l == nil || l.made+runs <= l.Runs {
		return nil
	}
	paths, err := databases(dir)
	if err != nil {
		return err
	}
	if canFit := l.made+runs-len(paths) <= l.Runs; !canFit { // a hostile file can have very many
		return l.tooMany(runs)
	}
	made := runs
	for i := range runs {
		r := run(i)
		if isThere(dir, &r) {
			made--
		}
	}
	if l.made+made > l.Runs {
		return l.tooMany(made)
	}
	return nil
}

// isThere reports whether a run has a file in dir.
func isThere(dir string, run *rt.Run) bool {
	_, err := os.Lstat(filepath.Join(dir, run.FileStem()+dbSuffix))
	return err == nil
}

func (l *ImportLimits) tooMany(runs int) error {
	return fmt.Errorf("%w: it has %d runs, a file each, and the limit is %d: --max-runs raises it", ErrImport, l.made+runs, l.Runs)
}

// Create is the function Create within the limits. Put of the Writer returns an error when the
// files of the import take more than Bytes.
func (l *ImportLimits) Create(dir string, run rt.Run, host rt.Host, opts Options) (*Writer, error) {
	if isThere(dir, &run) {
		return nil, fmt.Errorf("%w, as %s%s, which stays as it is: rt-spool --spool DIR import imports it into another spool", ErrExists, filepath.Join(dir, run.FileStem()), dbSuffix)
	}
	if l == nil {
		return Create(dir, run, host, opts)
	}
	if l.made >= l.Runs {
		return nil, l.tooMany(1)
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
