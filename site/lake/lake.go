// Package lake writes the runs of a site as tables of Apache Iceberg, for engines such as DuckDB and Spark.
// The tables are runs and samples. site/DESIGN.md describes how each run is there once.
package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/google/uuid"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// Registry knows which runs the lake lacks. A run may be registered several times; the lake has the best of its
// registrations whose record can be read.
type Registry interface {
	// ChangedRuns returns at most limit runs, after the given one, whose last version is not in the lake.
	ChangedRuns(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error)
	// Registrations returns all registrations of a run that the lake may have.
	Registrations(ctx context.Context, run site.Changed) ([]site.Changed, error)
	// MarkWritten stores that the lake has these versions of the runs.
	MarkWritten(ctx context.Context, runs []site.Changed) error
	// GoneRuns returns at most limit runs, after the given one, that the site has no more, or not under this name.
	GoneRuns(ctx context.Context, after site.Changed, limit int) ([]site.Changed, error)
	// ForgetGone stores that the lake does not have runs of GoneRuns.
	ForgetGone(ctx context.Context, runs []site.Changed) error
}

// DecodedRun is a run that was read from its record.
type DecodedRun struct {
	Run    rt.Run
	Report *report.Summary
	Waste  rt.Opt[float64] // in equivalent core-seconds
	// Snapshots are all readings, in their order. A snapshot is valid until the next one.
	Snapshots iter.Seq2[*rt.Snapshot, error]
	Close     func() error
}

// Decoder reads the record of a run. The error is site.ErrNotFound if the site has no record of the run, and
// site.ErrDamaged if the record cannot be decoded. It is ErrAbsent if the object is not there, perhaps for a moment.
type Decoder func(ctx context.Context, id string) (*DecodedRun, error)

// Config is what a Lake works with.
type Config struct {
	Catalog   catalog.Catalog
	Warehouse string // address of the directory of the tables; the catalog knows it once they exist
	Registry  Registry
	Decode    Decoder
	// FileBytes is the size at which a file is full, at least 1 MiB; 0: 256 MiB.
	FileBytes int64
	// BatchRuns is how many runs a snapshot adds at most; 0: 5,000.
	BatchRuns int
	// Retain is how long a date stays; 0: forever.
	Retain time.Duration
	// Check is called before each snapshot: it returns an error if another process may write the lake.
	Check func(context.Context) error
	// Problem receives runs that cannot be written; the others are written.
	Problem func(run string, err error)
}

// ErrAbsent means that the object of a record is not in the store: the next pass tries the run again.
var ErrAbsent = errors.New("the object of a record is absent")

const (
	defaultFileBytes, minFileBytes = 256 << 20, 1 << 20
	defaultBatch                   = 5000
)

// Lake writes the tables. One process at a time may do so.
type Lake struct {
	Config
	runs, samples *lakeTable
	isPurged      bool // no snapshot before the current ones may stay
}

// Totals counts what a pass did.
type Totals struct {
	Runs    int   `json:"runs"`    // written or replaced
	Samples int64 `json:"samples"` // of these
	Removed int   `json:"removed"` // runs
	Failed  int   `json:"failed"`  // runs that could not be read
	Files   int   `json:"files"`   // written
	Bytes   int64 `json:"bytes"`   // of these
	Expired int64 `json:"expired"` // runs removed by retention
}

// Open opens the tables of a lake. It creates them, adds the columns that they lack, and undoes what a killed writer has
// left.
func Open(ctx context.Context, c Config) (*Lake, error) {
	l := &Lake{Config: c}
	l.FileBytes = max(cmp.Or(c.FileBytes, defaultFileBytes), minFileBytes)
	l.BatchRuns = cmp.Or(c.BatchRuns, defaultBatch)
	runs, err := new(run).columns()
	if err != nil {
		return nil, fmt.Errorf("the table runs: %w", err)
	}
	err = c.Catalog.CreateNamespace(ctx, []string{namespace}, nil)
	isThere := err == nil || errors.Is(err, catalog.ErrNamespaceAlreadyExists)
	if !isThere {
		return nil, fmt.Errorf("create the namespace %s in the catalog: %w", namespace, err)
	}
	l.runs, err = l.openTable(ctx, "runs", runs)
	if err != nil {
		return nil, err
	}
	l.samples, err = l.openTable(ctx, "samples", new(sample).columns())
	if err != nil {
		return nil, err
	}
	return l, l.undo(ctx)
}

// batchKey is the property of both tables that names the last batch with samples. A batch changes samples before runs: if
// the tables name different batches, a writer was killed between the two.
const batchKey = "rt.batch"

// undo takes back the change of samples that a killed writer has not made in runs.
func (l *Lake) undo(ctx context.Context) error {
	last, done := l.samples.Properties()[batchKey], l.runs.Properties()[batchKey]
	if last == done {
		return nil
	}
	changed := l.samples.CurrentSnapshot()
	for changed != nil && changed.Summary.Properties[batchKey] != last { // an engine may have merged files meanwhile
		changed = l.samples.parent(changed)
	}
	if changed == nil || l.samples.parent(changed) == nil { // it is the first, or an engine has removed the snapshot
		return l.removeStrays(ctx, done)
	}
	tx := l.samples.NewTransaction()
	err := tx.SetProperties(iceberg.Properties{batchKey: done})
	if err == nil {
		err = tx.RollbackToSnapshot(*changed.ParentSnapshotID)
	}
	if err != nil {
		return fmt.Errorf("undo the change of samples of a killed writer: %w", err)
	}
	return l.samples.commit(ctx, tx)
}

// exchange is a change of both tables.
type exchange struct {
	runs, samples tableChange
	isPurge       bool // the rows that it removes must be nowhere
}

func (c *exchange) isEmpty() bool { return c.runs.isEmpty() && c.samples.isEmpty() }

// changes returns the tables with their parts of a change.
func (l *Lake) changes(c *exchange) map[*lakeTable]*tableChange {
	return map[*lakeTable]*tableChange{l.samples: &c.samples, l.runs: &c.runs}
}

// apply commits a change: samples first, so that no run lacks its samples.
func (l *Lake) apply(ctx context.Context, c *exchange) error {
	if c.isEmpty() {
		return nil
	}
	if err := l.Check(ctx); err != nil {
		return fmt.Errorf("the lake may have another writer: %w", err)
	}
	of := iceberg.Properties{batchKey: l.samples.Properties()[batchKey]}
	if c.isPurge {
		of[purgeKey] = "due"
	}
	if !c.samples.isEmpty() {
		of[batchKey] = uuid.NewString()
		if err := l.samples.replace(ctx, &c.samples, of); err != nil {
			return err
		}
	}
	return l.runs.replace(ctx, &c.runs, of)
}
