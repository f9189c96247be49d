package upload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// deliver takes one run that has ended through all steps that are still to be done.
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
	if err := r.spool.MarkDelivered(time.Now()); err != nil {
		return unwritable("mark the run delivered", err)
	}
	return nil
}

// registered does what the receiver must know the run for. Where it has forgotten
// the run, it is told of it anew, once.
func (r *delivery) registered(ctx context.Context, do func(context.Context) error) error {
	if err := r.register(ctx); err != nil {
		return err
	}
	err := do(ctx)
	var forgotten *forgottenError
	if !errors.As(err, &forgotten) {
		return err
	}
	if err := r.startAnew(ctx, err); err != nil {
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

// upload puts all batches that are not there yet, and goes on where it stood: the
// URIs of all are then in uris, in order; none when the run has no rows.
func (r *delivery) upload(ctx context.Context) error {
	if err := r.resume(); err != nil {
		return err
	}
	ledger, err := r.spool.Batches()
	if err != nil {
		return unreadable("read the ledger of batches", err)
	}
	last, err := r.spool.LastSeq()
	if err != nil {
		return unreadable("read the number of the last snapshot", err)
	}
	for {
		n := r.batches + 1
		uri := r.uri(n)
		var b rt.Batch
		if n <= len(ledger) {
			if ledger[n-1].Number != n {
				return unreadable("read the ledger of batches", fmt.Errorf("batch %d is missing", n))
			}
			b = ledger[n-1]
		}
		if !b.UploadedAt.IsZero() && b.Key == uri {
			err = r.rows.skip(ctx, b.LastSeq)
		} else {
			b, err = r.uploadBatch(ctx, b, last, n, uri)
		}
		if err != nil {
			return err
		}
		if b.Rows == 0 {
			return nil
		}
		r.batches, r.stand = n, r.rows.stand
		if uri != inlineKey {
			r.uris = append(r.uris, uri)
		}
	}
}

// resume sets the rows to the end of the batches that are done, at first to the
// beginning.
func (r *delivery) resume() error {
	if r.rows == nil {
		enc, err := r.d.format(&r.run, r.reg.Dialect, r.reg.Scope)
		if err != nil {
			return err
		}
		r.rows = &rows{enc: enc, buf: r.buf}
	}
	r.rows.spool, r.rows.stand = r.spool, r.stand
	return nil
}

// rewind makes the next upload begin with batch 1.
func (r *delivery) rewind() {
	r.rows, r.stand, r.batches, r.uris = nil, stand{}, 0, nil
	r.inline, r.csv = false, nil
}

func (r *delivery) uri(n int) string {
	if r.inline {
		return inlineKey
	}
	return fmt.Sprintf("%s/%s/%06d.csv.gz", r.reg.UploadURIPrefix, r.reg.RemoteID, n)
}

// uploadBatch builds, seals and puts batch n; one without rows means that there
// are none left. Where the batch is sealed already, its rows must be the same again.
func (r *delivery) uploadBatch(ctx context.Context, sealed rt.Batch, last int64, n int, uri string) (rt.Batch, error) {
	limit := r.d.opts.BatchRows
	if sealed.Rows > 0 {
		last, limit = sealed.LastSeq, 0
	}
	b, body, err := r.rows.build(ctx, last, limit)
	isDone := b.Rows == 0 && sealed.Rows == 0
	if err != nil || isDone {
		return b, err
	}
	b.Number, b.Key, b.SealedAt = n, uri, time.Now()
	if err := r.seal(sealed, b); err != nil {
		return b, err
	}
	if r.inline {
		r.csv, err = appendInline(r.csv, body)
	} else {
		err = r.put(ctx, uri, body)
		if err == nil {
			err = r.uploaded(n)
		}
	}
	if err != nil {
		return b, err
	}
	r.sentRows += int64(b.Rows)
	r.sentBytes += b.Bytes
	return b, nil
}

func (r *delivery) uploaded(n int) error {
	if err := r.spool.MarkUploaded(n, time.Now()); err != nil {
		return unwritable(fmt.Sprintf("mark batch %d uploaded", n), err)
	}
	return nil
}

// seal writes a batch into the ledger, unless the very same is there. Other rows
// than before mean that the file is damaged. The same rows in other bytes (a newer
// version, another scope) replace the object of the same key: nothing is there twice.
func (r *delivery) seal(sealed, b rt.Batch) error {
	if sealed.Rows > 0 {
		if b.Rows != sealed.Rows || b.FirstSeq != sealed.FirstSeq || b.LastSeq != sealed.LastSeq {
			return unreadable(fmt.Sprintf("build batch %d again", b.Number), fmt.Errorf(
				"snapshots %d..%d now give %d rows, not %d", sealed.FirstSeq, sealed.LastSeq, b.Rows, sealed.Rows))
		}
		if b.SHA256 == sealed.SHA256 && b.Key == sealed.Key {
			return nil
		}
		if b.SHA256 != sealed.SHA256 {
			detail := fmt.Sprintf("batch %d has other bytes than when it was sealed: %s, was %s", b.Number, b.SHA256, sealed.SHA256)
			if err := r.event("batch", "resealed", detail); err != nil {
				return err
			}
		}
	}
	if err := r.spool.SealBatch(b); err != nil {
		return unwritable(fmt.Sprintf("seal batch %d", b.Number), err)
	}
	return nil
}

// put uploads one body. Credentials that the store refuses are replaced once: its
// clock may differ from ours.
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
			final.Kind = Permanent // of this run; the token is not in question
			return &final
		}
		r.cred = Credentials{}
	}
}

// Status is how the run ended in the terms of section 9.2.3: finished for exit
// code 0 and SIGTERM, and where nothing speaks of a failure.
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

// exitCode is absent where a signal ended the run.
func exitCode(run *rt.Run) rt.Opt[int64] {
	if run.ExitSignal.Or(0) != 0 {
		return rt.None[int64]()
	}
	return run.ExitCode
}
