package upload

import (
	"context"
	"errors"
	"time"

	"github.com/resource-tracker/rt"
)

// Spooled is a run that has ended. For a Stream and with Options.Live it can be one that is
// still tracked. A change is durable when its method returns. If another process has locked the
// file, the error has a method Busy() bool that returns true.
type Spooled interface {
	Description
	Registrations
	BatchLedger
	SnapshotReader
	Journal
	Close() error
}

// Description is what a registration sends.
type Description interface {
	Run() rt.Run
	Host() rt.Host
}

// Journal keeps what has happened to a run.
type Journal interface {
	AddEvent(rt.Event) error
	MarkDelivered(at time.Time) error
}

// delivery is the delivery of one run.
type delivery struct {
	d         *drainer
	name      string // of the spool file
	live      bool   // its tracker still writes it
	buf       *buffers
	run       rt.Run
	host      func() rt.Host
	reg       rt.Registration
	cred      Credentials
	registry  Registrations
	ledger    BatchLedger
	snapshots SnapshotReader
	journal   Journal

	// How far the upload is.
	rows    *rows    // nil before the first batch
	cursor  cursor   // of the rows, after the last batch that is done
	batches int      // that are done
	uris    []string // of these batches
	inline  bool     // the rows go into the finish, not into the object store
	csv     []byte   // these rows
	// mayInline: a short run without uploads may be delivered inline.
	mayInline bool

	duplicate bool // a second registration was sent after one without an answer
	sentRows  int64
	sentBytes int64
}

// use sets the run that is delivered.
func (r *delivery) use(s Spooled) {
	r.run, r.host = s.Run(), s.Host
	r.registry, r.ledger, r.snapshots, r.journal = s, s, s, s
}

// deliver does all steps of an ended run that are not done yet.
func (r *delivery) deliver(ctx context.Context) error {
	err := r.registered(ctx, func(ctx context.Context) error {
		if !r.reg.FinishedAt.IsZero() {
			return nil
		}
		return r.uploadAndFinish(ctx)
	})
	if err != nil {
		return err
	}
	if err := r.journal.MarkDelivered(time.Now()); err != nil {
		return unwritable("mark the run delivered", err)
	}
	return nil
}

// registered calls do, and registers the run again, once, if the receiver no longer knows
// it.
func (r *delivery) registered(ctx context.Context, do func(context.Context) error) error {
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

func (r *delivery) uploadAndFinish(ctx context.Context) error {
	if err := r.collect(ctx); err != nil {
		return err
	}
	f := Finish{
		Dialect: r.reg.Dialect, RemoteID: r.reg.RemoteID, URIs: r.uris, CSV: r.csv,
		Status: Status(&r.run), ExitCode: exitCode(&r.run), FinishedAt: r.run.End,
	}
	if len(f.URIs)+len(f.CSV) == 0 {
		f.CSV = r.rows.enc.Header()
	}
	if f.FinishedAt.IsZero() {
		f.FinishedAt = r.run.Start
		if r.rows.seq > 0 {
			f.FinishedAt = time.Unix(0, r.rows.wall)
		}
	}
	err := r.d.api.call(ctx, func(ctx context.Context) error { return r.d.client.Finish(ctx, f) })
	if err := orForgotten(err); err != nil {
		return err
	}
	r.reg.FinishedAt = time.Now()
	return r.save()
}

// put uploads one body. If the store refuses the credentials, put requests new ones, once: the
// clock of the store may differ from ours.
func (r *delivery) put(ctx context.Context, uri string, body []byte) error {
	for again := false; ; again = true {
		if err := r.refresh(ctx); err != nil {
			return err
		}
		err := r.d.store.call(ctx, func(ctx context.Context) error { return r.d.putter.Put(ctx, uri, r.cred, body) })
		var refused *Error
		if !errors.As(err, &refused) || refused.Kind != Unauthorised {
			return err
		}
		if again {
			final := *refused
			final.Kind = Permanent // for this run; it does not concern the token
			return &final
		}
		r.cred = Credentials{}
	}
}

// Status is how the run ended in the terms of section 9.2.3: finished for exit code 0 and
// SIGTERM, and if there is no sign of a failure.
func Status(run *rt.Run) string {
	switch run.Outcome {
	case rt.OutcomeOOM, rt.OutcomeTimeout, rt.OutcomeLost:
		return StatusFailed
	}
	const sigterm = 15
	switch signal := run.ExitSignal.Or(0); {
	case signal == sigterm:
		return StatusFinished
	case signal != 0 || run.ExitCode.Or(0) != 0 || run.Outcome == rt.OutcomeFailed:
		return StatusFailed
	}
	return StatusFinished
}

// exitCode is absent if a signal ended the run.
func exitCode(run *rt.Run) rt.Opt[int64] {
	if run.ExitSignal.Or(0) != 0 {
		return rt.None[int64]()
	}
	return run.ExitCode
}
