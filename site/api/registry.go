package api

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Registry stores runs, and objects of at most site.MaxRow bytes. Each change is durable when its
// method returns. The errors are those of package site.
type Registry interface {
	Runs
	Rows
	Retention
	Reading
	NodeReports
	Claims
}

// Runs stores runs.
type Runs interface {
	CreateRun(ctx context.Context, r site.Run) error
	Run(ctx context.Context, id string) (site.Run, error)
	// RunHead returns the id, the owner and the finish of a run.
	RunHead(ctx context.Context, id string) (site.Run, error)
	// OwnRunIDs returns at most limit ids of the runs of an owner after the given id, sorted.
	OwnRunIDs(ctx context.Context, owner, after string, limit int) ([]string, error)
	// FinishRun stores the end of a run, and inline data with its body, which is nil if the
	// object store has it. A repeated finish with the same rows updates the outcome.
	FinishRun(ctx context.Context, id string, f site.Finish, inline *site.Object, body []byte) (site.Finished, error)
}

// Rows stores the objects of runs.
type Rows interface {
	// PutObject stores an object with its body, which is nil if the object store has it. The
	// returned name is that of an object in the object store that no row names any more. site.CheckRecordRun accepts
	// the record, which is nil for another object.
	PutObject(ctx context.Context, o site.Object, body []byte, record *rt.Run) (replaced string, err error)
	Objects(ctx context.Context, runID string) ([]site.Object, error) // by name
	Body(ctx context.Context, runID, name string) ([]byte, error)
}

// Retention removes what is old. The names that its methods return, also with an error, are those of objects in the
// object store that no row names any more. There is nothing more to remove when n is 0.
type Retention interface {
	// Expire removes objects of a class of at most limit finished runs.
	Expire(ctx context.Context, class site.Class, before time.Time, limit int) (stored []string, n int, err error)
	// ExpireRuns removes at most limit runs without a change since before.
	ExpireRuns(ctx context.Context, before time.Time, limit int) (stored []string, n int, err error)
}

// Objects stores the objects that are too large for a Registry.
type Objects interface {
	Put(ctx context.Context, name string, size int64, body io.Reader) error // durable when it returns
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	Delete(ctx context.Context, name string) error // absent is no error
	// List yields the objects with names that begin with prefix.
	List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error]
}
