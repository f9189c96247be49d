package upload

import (
	"context"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
)

// The dialects of the Sentinel API: as specified, and as the running service is.
const (
	DialectSpec = "spec"
	DialectLive = "live"
)

// Directory is the spool as Drain sees it. Its methods may be called by several
// goroutines.
type Directory interface {
	// Runs lists what is not delivered yet.
	Runs(ctx context.Context) ([]Entry, error)
	// Open opens a ready run. An error means that it cannot be read.
	Open(name string) (Spooled, error)
}

// Entry is one run of a Directory.
type Entry struct {
	Name  string    // of the spool file
	Start time.Time // the oldest runs are delivered first
	Live  bool      // its tracker still writes it
	Err   error     // it cannot be read: reported, and the others go on
}

// Spooled is a run that has ended, or for a Stream and with Options.Live one that
// is still tracked. All that is written through it is durable when the method returns.
// An error with a method Busy() bool that is true says that another process has the
// file locked for now.
type Spooled interface {
	Run() rt.Run
	Host() rt.Host

	// Registration is what is known of the run at a receiver; false for nothing.
	Registration() (rt.Registration, bool, error)
	SaveRegistration(rt.Registration) error

	// Batches is the ledger of sealed uploads, ascending by number.
	Batches() ([]rt.Batch, error)
	// SealBatch writes the batch into the ledger, in place of one with its number.
	SealBatch(rt.Batch) error
	MarkUploaded(number int, at time.Time) error

	// LastSeq is the sequence number of the last snapshot, 0 when there is none.
	LastSeq() (int64, error)
	// Scalars yields the snapshots from..to, both included, ascending, without
	// devices. A snapshot is valid until the next one.
	Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error]

	MarkDelivered(at time.Time) error
	AddEvent(rt.Event) error
	Close() error
}

// Client is the receiver's API. Its errors are *Error.
type Client interface {
	// Endpoint is the base URL, by which a registration remembers its receiver.
	Endpoint() string
	Register(ctx context.Context, run rt.Run, host rt.Host) (Registered, error)
	Refresh(ctx context.Context, remoteID string) (Credentials, error)
	Finish(ctx context.Context, f Finish) error
}

// Registered is the receiver's answer to a registration.
type Registered struct {
	Dialect         string // the one that was accepted
	RemoteID        string
	UploadURIPrefix string // s3://bucket/some/prefix, without a slash at its end
	Credentials     Credentials
}

// The values of Finish.Status.
const (
	StatusFinished = "finished"
	StatusFailed   = "failed"
)

// Finish closes a run at the receiver (section 9.2.3).
type Finish struct {
	Dialect    string
	RemoteID   string
	Status     string        // StatusFinished or StatusFailed
	ExitCode   rt.Opt[int64] // absent when nothing says it, or a signal ended the run
	FinishedAt time.Time     // when the run ended
	URIs       []string      // of its objects; none: the rows are in CSV
	CSV        []byte        // plain text, with its header
}

// Putter stores objects. Its errors are *Error.
type Putter interface {
	// Put stores a gzip-compressed CSV under an s3:// URI.
	Put(ctx context.Context, uri string, cred Credentials, body []byte) error
}

// Encoder writes the rows of one run. It is used by one goroutine at a time.
type Encoder interface {
	// Header is the first line, with its end.
	Header() []byte
	// Append appends the row of the interval between two snapshots, with its end.
	Append(dst []byte, prev, cur *rt.Snapshot) []byte
}

// Format returns the encoder of a run's rows in a dialect of the API, with the
// figures of a scope. Equal arguments give equal bytes.
type Format func(run *rt.Run, dialect string, scope rt.Scope) (Encoder, error)

// Progress is told how a drain gets on, by several goroutines but by one at a time.
type Progress interface {
	// Begin is called once with the number of runs that are to be delivered.
	Begin(runs int)
	// Done is called for each of them; err is nil for a delivered one.
	Done(run string, err error)
}
