// Package site has the data types of a site service: the runs that nodes deliver, their objects and
// jobs. site/registry stores runs and jobs in a database. site/objects stores large objects.
// site/api serves both over HTTP.
package site

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// StoredRun is one registered run.
type StoredRun struct {
	ID       string          // of the form 20060102t150405-<26 characters>; ids sort by the time of registration
	Owner    string          // names the token that registered the run, without revealing it
	Created  time.Time       // when it was registered
	Metadata json.RawMessage // the registration as it was sent
	Finish   *Finish         // nil until the client has finished the run
	Finished time.Time       // when the first finish was accepted; zero before
	Record   *rt.Run         // from the newest complete record, or nil
	Expired  []Class         // whose objects retention has removed
	Held     Held            // set in lists
}

// Copy returns what decides between the registrations of one run. Held must be set.
func (r *StoredRun) Copy() *rt.Copy {
	c := &rt.Copy{State: rt.StateRunning, HasRecord: r.Held.RecordBytes > 0, IsAtSite: true, Place: r.ID}
	switch {
	case r.Record != nil:
		c.State = r.Record.State
	case r.Finish != nil:
		c.State = rt.StateEnded
	}
	return c
}

// Held is the size of what is stored of a run.
type Held struct {
	RecordBytes  int64         // of the complete record; 0 without one
	RecordSHA256 string        // in hexadecimal; empty without a record
	Rows         rt.Opt[int64] // of CSV, without headers; absent if retention has removed some
}

// Finish is the end of a run as its client sent it.
type Finish struct {
	ExitCode   *int64          `json:"exit_code"`               // nil if it is not known
	RunStatus  string          `json:"run_status"`              // "finished" or "failed"
	DataSource string          `json:"data_source"`             // "s3" or "inline"
	Keys       []string        `json:"keys,omitempty"`          // names of the run's CSV objects, in order
	CSVSHA256  string          `json:"csv_sha256,omitempty"`    // of the text of inline data
	RecordSum  string          `json:"record_sha256,omitempty"` // of the record that belongs to this finish
	Summary    json.RawMessage `json:"summary,omitempty"`       // figures for lists, as the client computed them
}

// Rewrite has new texts of a run, in which other names stand for those that must not stay.
type Rewrite struct {
	Old       StoredRun // as it was read
	OldRecord Object    // the record that was read; its SHA256 is empty if there was none
	Metadata  json.RawMessage
	Finish    *Finish
	Run       *rt.Run // what the new record says; nil if the run had no record
	Record    Object  // the new record; if its SHA256 is empty, the record is removed
	Body      []byte  // of Record, unless the object store has it
}

// Class is the kind of an object. Each class has its own retention.
type Class string

// The classes of objects.
const (
	ClassCSV    Class = "csv"    // gzip-compressed CSV that was uploaded
	ClassInline Class = "inline" // gzip-compressed CSV that was in the finish; its name is InlineName
	ClassRecord Class = "record" // the complete record of the run; its name is RecordName
)

// The names of objects that a run has at most once.
const (
	InlineName = "inline.csv.gz"
	RecordName = "run.rtrec"
)

// Object is a part of a run. The pair of RunID and Name identifies it.
type Object struct {
	RunID, Name string
	Class       Class
	Bytes       int64  // as it is stored
	SHA256      string // of the stored bytes, in hexadecimal
	Rows        int64  // of CSV, without its header
	Text        int64  // bytes of the decompressed CSV
	Header      int64  // bytes of the first line of the decompressed CSV
	Stored      string // name in the object store; empty if the registry holds the bytes
	Created     time.Time
	Signed      time.Time // of a record: when its sender signed the upload
}

// MaxRow is the size, in bytes, up to which the registry has the bytes of an object. The object store has larger ones.
const MaxRow = 64 << 10

// NewStoredName returns a name in the object store that no other object has, so that the object can
// be deleted at any time. RunID and SHA256 must be set.
func (o *Object) NewStoredName() string {
	return o.RunID + "/" + o.SHA256 + "-" + strings.ToLower(rand.Text())
}

// Stored is an object in the object store.
type Stored struct {
	Name     string
	Bytes    int64
	Modified time.Time
}

// ObjectStore is a store of objects under names: an objects.Dir or an objects.S3.
type ObjectStore interface {
	Put(ctx context.Context, name string, size int64, body io.Reader) error // durable when it returns
	Get(ctx context.Context, name string) (io.ReadCloser, error)            // absent is ErrNotFound
	Delete(ctx context.Context, name string) error                          // absent is no error
	// List yields the objects with names that begin with prefix.
	List(ctx context.Context, prefix string) iter.Seq2[Stored, error]
}

// Finished is what Runs.Finish of a registry has done.
type Finished struct {
	IsFirst bool   // the run had no finish before
	Unused  string // name of the inline data in the object store, if the run does not need them: an earlier finish has stored them
}

// JobRow is a job of a scheduler, over all of its nodes and attempts.
type JobRow struct {
	Cluster string
	JobID   uint64 // the scheduler's raw job id
	// Generation distinguishes jobs with the same id: Slurm uses an id again.
	Generation int64

	Owner                    string // of the runs that describe the job
	User, Account, Partition string // empty: not known
	Name                     string // empty: not known
	Label                    string // "12", "12_3" for a task of an array
	State                    rt.State
	Outcome                  rt.Outcome
	Start                    time.Time // of the first attempt
	End                      time.Time // zero while the job is running

	// Of the newest attempt: Slurm's own state where accounting has it and it says more than the outcome, and how long
	// the job was suspended.
	SlurmState    string
	SuspendedSecs rt.Opt[float64]

	report.Balance // of the runs of the whole job, not of its steps
	// Waste is Balance.Waste, in whole core-seconds. A list by waste has the order of the waste without Live.
	Waste rt.Opt[int64]
	// Live are the runs that nodes have reported and not delivered yet. Figures include them.
	Live []LiveRun `json:",omitempty"`
}

// Sum returns what the job reserved, used and wasted.
func (j *JobRow) Sum() report.Sum {
	return report.Sum{Balance: j.Balance, NotUsed: j.Unused(), WasteSecs: rt.Map(j.Waste, func(secs int64) float64 { return float64(secs) })}
}

// Sort is the order of a list of jobs.
type Sort string

// The orders of a list of jobs.
const (
	ByStart Sort = ""      // the newest first
	ByWaste Sort = "waste" // the most wasteful first, without jobs of unknown waste
)

// Filter selects jobs. A zero field selects all.
type Filter struct {
	Sort                        Sort
	Cluster                     string
	JobID                       rt.Opt[uint64] // a job, or all tasks of an array, or all components of a heterogeneous job
	Users, Accounts, Partitions []string       // any of them
	Name, Outcome               string         // Name matches a part of the job's name
	FullName                    string         // the job's name, in any case
	Label                       string         // a task of an array, "12_3"; with JobID
	Node                        string         // the job has a run on it, one of the newest of the node
	State                       rt.State
	Since, Until                time.Time // the job was running at some time in this interval
	Access                      *Access   // what the reader of the list sees; nil: all jobs
}

// Errors of the registry and of the object store.
var (
	ErrNotFound = errors.New("there is no such run or object")
	ErrFinished = errors.New("the run is finished, with other data")
	ErrOlder    = errors.New("a newer record of the run is stored")
	ErrMissing  = errors.New("the run lacks an object that its finish names")
	ErrTooMany  = errors.New("the run has as many objects as it may have")
	ErrQuota    = errors.New("there is no room in the quota")
	ErrFull     = errors.New("the disk of the store is full")
	ErrUnclear  = errors.New("the change failed at its end: a crash of the database may still make it durable")
	ErrAway     = errors.New("the database or the object store cannot be reached now")
	ErrChanged  = errors.New("the run has changed meanwhile")
	ErrDamaged  = errors.New("the data of the site are damaged")
	ErrNewer    = errors.New("a newer version of rt wrote this")
	ErrCursor   = errors.New("the cursor is not from an earlier answer")
)
