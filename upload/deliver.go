package upload

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
)

// Spooled is a run to deliver. The run has ended, but for a Stream and with DrainOptions.Live the
// tracker may still write it. A change is durable when its method returns. Errors come from package
// spool.
type Spooled interface {
	// Run and Host are what a registration sends.
	Run() rt.Run
	Host() rt.Host

	// Registration returns false if none is stored.
	Registration() (rt.Registration, bool, error)
	SaveRegistration(rt.Registration) error

	// Batches returns the sealed batches, ascending by number.
	Batches() ([]rt.Batch, error)
	// SealBatch writes the batch into the ledger. It replaces a batch with the same number.
	SealBatch(rt.Batch) error
	MarkUploaded(number int, at time.Time) error

	// LastSeq is the sequence number of the last snapshot, 0 when there is none.
	LastSeq() (int64, error)
	// Rates yields the snapshots from..to, both included, ascending, with what rows are derived from. A
	// snapshot is valid until the next one.
	Rates(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error]

	// WriteRecord writes the complete record of the run, for receivers that take records. It has nothing of the
	// delivery: the record of an ended run has the same bytes at each attempt.
	WriteRecord(ctx context.Context, w io.Writer) error
	// Figures returns the figures of the run for lists of jobs, as a JSON object; empty for none.
	Figures(ctx context.Context) ([]byte, error)

	AddEvent(rt.Event) error
	Events() ([]rt.Event, error)
	MarkDelivered(at time.Time) error
	Close() error
}

// delivery is the delivery of one run.
type delivery struct {
	d       *drainer
	name    string // of the spool file
	live    bool   // its tracker still writes it
	buf     *buffers
	spooled Spooled
	run     rt.Run
	reg     rt.Registration
	cred    Credentials

	upload uploads // of the rows

	duplicate bool  // a second registration was sent after one without an answer
	note      error // set if the finish is unconfirmed
	sentRows  int64
	sentBytes int64
}

func newDelivery(d *drainer, name string, live bool, buf *buffers) *delivery {
	r := &delivery{d: d, name: name, live: live, buf: buf}
	r.upload.of = r
	return r
}

// setSpooled sets the run that is delivered.
func (r *delivery) setSpooled(s Spooled) {
	r.spooled, r.run = s, s.Run()
}

// deliver delivers an ended run. It skips the steps that are already done.
func (r *delivery) deliver(ctx context.Context) error {
	if err := r.doRegistered(ctx, r.closeRun); err != nil {
		return err
	}
	if err := r.spooled.MarkDelivered(time.Now()); err != nil {
		return unwritable("mark the run delivered", err)
	}
	if r.note != nil {
		r.noteProblem(&r.d.sum.FinishUnconfirmed, r.note)
	}
	return nil
}

// doRegistered calls do, and registers the run again, once, if the receiver no longer knows
// it.
func (r *delivery) doRegistered(ctx context.Context, do func(context.Context) error) error {
	if err := r.register(ctx); err != nil {
		return err
	}
	err := do(ctx)
	var forgotten *forgottenError
	if !errors.As(err, &forgotten) {
		return err
	}
	if err := r.startAgain(ctx, err); err != nil {
		return err
	}
	return do(ctx)
}

// putObject uploads one body. If the store refuses the credentials, it requests new ones, once: the
// clock of the store may differ from ours.
func (r *delivery) putObject(ctx context.Context, uri string, body []byte) error {
	for again := false; ; again = true {
		if err := r.refreshCredentials(ctx); err != nil {
			return err
		}
		err := r.d.store.send(ctx, func(ctx context.Context) error { return r.d.putter.Put(ctx, uri, r.cred, body) })
		var refused *Error
		if !errors.As(err, &refused) || refused.Kind != Unauthorised {
			return err
		}
		if again {
			final := *refused
			final.Kind = Permanent // the error concerns this run only, not the token
			return &final
		}
		r.cred = Credentials{}
	}
}
