// Package lake writes the runs of a site as Parquet files, for engines such as DuckDB and Spark.
// The tables are runs and samples, in partitions by cluster and date. site/DESIGN.md describes how
// each run is there once.
package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Registry knows which runs the lake lacks and which it has. A run may be registered several times; the lake has one
// of its registrations.
type Registry interface {
	// ChangedRuns returns at most limit runs, after the given one, whose last version is not in the lake.
	ChangedRuns(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error)
	// ClaimPartition stores that the runs may be in this partition of the lake, and in no other.
	// The lake calls it before it writes the runs.
	ClaimPartition(ctx context.Context, partition string, runs []site.Changed) error
	// MarkWritten stores that the lake has these versions of the runs.
	MarkWritten(ctx context.Context, runs []site.Changed) error
	// MarkChanged lets ChangedRuns return other registrations of the runs. A run with an ID leaves the partition:
	// another registration takes its place. Without an ID, the partition has lost samples of the run: all its
	// registrations are read again.
	MarkChanged(ctx context.Context, partition string, runs []site.Changed) error
	// GoneRuns returns at most limit runs, after an id, that the site has removed and the lake may have.
	GoneRuns(ctx context.Context, after string, limit int) ([]site.Changed, error)
	// ForgetRun stores that the lake does not have a run of GoneRuns.
	ForgetRun(ctx context.Context, id string) error
}

// DecodedRun is a run that was read from its record.
type DecodedRun struct {
	Run    rt.Run
	Report any // of the type of Config.Report, or a pointer to it
	// Snapshots are all readings, in their order. A snapshot is valid until the next one.
	Snapshots iter.Seq2[*rt.Snapshot, error]
	Close     func() error
}

// Config is what a Lake works with.
type Config struct {
	Store    site.ObjectStore // a directory or an S3 store
	Registry Registry
	// Decode reads the record of a run. The error is site.ErrNotFound if the site has no record of
	// the run, and site.ErrDamaged if the record cannot be decoded. It is ErrAbsent if the object
	// is not there, perhaps for a moment. Several goroutines call Decode at the same time.
	Decode func(ctx context.Context, id string) (*DecodedRun, error)
	Report reflect.Type // a struct: the report of a run, as columns of runs
	Temp   string       // directory of temporary files; empty: the system's
	// FileBytes is the size of samples at which a file is full, at least 1 KiB; 0: 256 MiB.
	FileBytes int64
	// Retain is how long the partition of a date stays; 0: forever.
	Retain time.Duration
	// Check is called before each change of the store: it returns an error if another process may write the lake.
	Check func(context.Context) error
	// Problem receives runs that cannot be written; the others are written.
	Problem func(run string, err error)
}

// ErrAbsent means that the object of a record is not in the store: the next pass tries the run again.
var ErrAbsent = errors.New("the object of a record is absent")

// A table without rows has 4 bytes: with a smaller limit each new file would be full.
const defaultFileBytes, minFileBytes = 256 << 20, 1 << 10

// Lake writes the files. One process at a time may do so.
type Lake struct {
	Config
	runs    *runEncoder
	samples *sampleEncoder
	temp    string // directory of a pass
	ahead   ahead

	groupRows int // of a row group
}

// Totals counts what a pass did.
type Totals struct {
	Runs    int   `json:"runs"`    // written or replaced
	Samples int64 `json:"samples"` // of these
	Removed int   `json:"removed"` // runs
	Failed  int   `json:"failed"`  // runs that could not be read
	Files   int   `json:"files"`   // written
	Bytes   int64 `json:"bytes"`   // of these
	Expired int   `json:"expired"` // files removed by retention
}

// New returns a Lake. It fails if Config.Report has a field of a type that has no column.
func New(o Config) (*Lake, error) {
	runs, err := newRunEncoder(o.Report)
	if err != nil {
		return nil, fmt.Errorf("the table runs: %w", err)
	}
	if o.FileBytes == 0 {
		o.FileBytes = defaultFileBytes
	}
	o.FileBytes = max(o.FileBytes, minFileBytes)
	return &Lake{Config: o, runs: runs, samples: newSampleEncoder(), ahead: ahead{}, groupRows: groupRows}, nil
}

// tempDirs matches the directories of temporary files.
const tempDirs = "rt-lake-*"

// prepare makes a directory for temporary files, and removes the files of a killed writer.
func (l *Lake) prepare() error {
	temp := l.Temp
	if temp == "" {
		temp = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(temp, tempDirs)) // the pattern is valid
	for _, dir := range left {
		info, err := os.Stat(dir)
		isOld := err == nil && time.Since(info.ModTime()) > time.Hour
		if isOld || l.Temp != "" {
			_ = os.RemoveAll(dir) // the next pass tries it again
		}
	}
	var err error
	l.temp, err = os.MkdirTemp(temp, tempDirs)
	if err != nil {
		return fmt.Errorf("make a directory for the files of the lake: %w", err)
	}
	return nil
}

// pageRuns is how many runs are listed at once.
const pageRuns = 1000

// Write writes all runs that have changed since they were written, and removes those that are gone or too old. It may be
// killed at any time: the next call does the rest. It goes on after a partition that cannot be read; the error is then
// site.ErrDamaged.
func (l *Lake) Write(ctx context.Context) (done Totals, err error) {
	if err := l.prepare(); err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.temp)) }()
	var bad unreadable
	if err := l.removeGone(ctx, &bad, &done); err != nil {
		return done, err
	}
	if err := l.writeChanged(ctx, &bad, &done); err != nil {
		return done, errors.Join(err, bad.err())
	}
	return done, errors.Join(bad.err(), l.expire(ctx, &done))
}

// ids is a set of ids of runs.
type ids map[string]bool

func (s ids) with(id string) ids {
	if s == nil {
		s = ids{}
	}
	s[id] = true
	return s
}

// removeGone removes the runs that are no more in the registry.
func (l *Lake) removeGone(ctx context.Context, bad *unreadable, done *Totals) error {
	for after := ""; ; {
		list, err := l.Registry.GoneRuns(ctx, after, pageRuns)
		if err != nil || len(list) == 0 {
			return err
		}
		from, isLeft := map[string]ids{}, map[string]bool{}
		for _, c := range list {
			from[c.Partition] = from[c.Partition].with(c.ID)
			after = c.ID
		}
		for partition, runs := range from {
			err := l.update(ctx, &update{partition: partition, remove: runs}, done)
			isLeft[partition] = err != nil
			if err := bad.leave(err); err != nil {
				return err
			}
		}
		for _, c := range list {
			if isLeft[c.Partition] {
				continue
			}
			if err := l.Registry.ForgetRun(ctx, c.ID); err != nil {
				return err
			}
		}
	}
}
