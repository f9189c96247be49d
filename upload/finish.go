package upload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// closeRun uploads the rest of an ended run and closes it at the receiver, unless the receiver has
// already confirmed that.
func (r *delivery) closeRun(ctx context.Context) error {
	here := r.d.client.Endpoint()
	switch {
	case !r.reg.FinishedAt.IsZero():
		return nil
	case finishSent(r.reg) && r.reg.Endpoint != here:
		// The other endpoint may be the same receiver under another name, or a receiver with
		// another run under this id.
		return fmt.Errorf("the finish of run %s was sent to %s and not confirmed, and the endpoint is now %s: set the endpoint back, or remove the run with rt-spool gc --undelivered",
			r.reg.RemoteID, r.reg.Endpoint, here)
	}
	if err := r.upload.collectRows(ctx); err != nil {
		return err
	}
	// Ask before the finish whether the receiver still knows the run. After a finish, a 404 may
	// also mean that the receiver closed the run.
	isUnheard := r.cred.AccessKey == "" // this process has no answer about the run yet
	if isUnheard && !finishSent(r.reg) {
		if err := r.refreshCredentials(ctx); err != nil {
			return err
		}
	}
	f := r.closing()
	if err := r.attachRecord(ctx, &f); err != nil {
		return err
	}
	err := r.finish(ctx, f)
	if r.mayLackObjects(err) && !r.refusedLately(time.Now()) {
		err = r.finishWithAllObjects(ctx, f, err)
	}
	if isRepeated := finishSent(r.reg); isRepeated && lacksRecord(f, err) {
		return r.finishWithoutRecord(ctx, f, err)
	}
	return err
}

// mayLackObjects reports whether a receiver may have refused a finish for missing objects. A
// receiver that was restored from a backup lacks the objects of later uploads. A receiver that
// takes no records may refuse a repeated finish because the run is closed.
func (r *delivery) mayLackObjects(err error) bool {
	mayBeClosed := finishSent(r.reg) && !r.reg.Record
	return isOwn(err, http.StatusUnprocessableEntity) && r.upload.skipped > 0 && !r.upload.resend && !mayBeClosed
}

// statusRefusedAgain is the status of the event of a finish that was refused although the receiver has all objects.
const statusRefusedAgain = "refused again"

// resendPause is the time in which a run is not uploaded again as a whole after that did not help.
const resendPause = 24 * time.Hour

// refusedLately reports whether the receiver has refused the finish with all objects lately: it does not lack
// objects, but has another reason.
func (r *delivery) refusedLately(now time.Time) bool {
	events, err := r.spooled.Events()
	return err == nil && slices.ContainsFunc(events, func(e rt.Event) bool {
		return e.Kind == rt.EventDelivery && e.Status == statusRefusedAgain && now.Sub(e.Time) < resendPause
	})
}

// finishWithAllObjects uploads all batches again, under the same keys, and repeats the finish, once per
// attempt. It returns the earlier refusal if the receiver has closed the run.
func (r *delivery) finishWithAllObjects(ctx context.Context, f Finish, why error) error {
	r.upload.resend = true
	r.upload.rewind()
	err := r.upload.uploadBatches(ctx)
	isRefused := refusedAsClosed(err) || errors.As(err, new(*forgottenError))
	if isRefused && finishSent(r.reg) {
		return why
	}
	if err == nil {
		err = r.finish(ctx, f)
	}
	if isOwn(err, http.StatusUnprocessableEntity) {
		return errors.Join(err, r.addEvent("batch", statusRefusedAgain, err.Error()))
	}
	if isFinished := err == nil && r.note == nil; !isFinished {
		return err
	}
	r.noteProblem(nil, fmt.Errorf("the receiver lacked uploaded objects of the run, and has them again: %w", why))
	return r.addEvent("batch", "uploaded again", why.Error())
}

// finishWithoutRecord sends a repeated finish again that was refused with 422: the receiver has another
// record, or it refuses each finish of the run. The second answer decides which of the two it is.
func (r *delivery) finishWithoutRecord(ctx context.Context, f Finish, why error) error {
	if err := r.addEvent("record", "unconfirmed", why.Error()); err != nil {
		return err
	}
	f.RecordSHA256 = ""
	err := r.finish(ctx, f)
	if isFinished := err == nil && r.note == nil; isFinished {
		r.noteProblem(nil, fmt.Errorf("the receiver did not confirm the complete record: %w", why))
	}
	return err
}

// closing returns the finish of the run. The rows of the run are uploaded already, or are in r.upload.csv.
func (r *delivery) closing() Finish {
	f := Finish{
		Dialect: r.reg.Dialect, RemoteID: r.reg.RemoteID, URIs: r.upload.uris, CSV: r.upload.csv,
		Status: Status(&r.run), ExitCode: exitCode(&r.run), FinishedAt: r.run.End,
	}
	if len(f.URIs)+len(f.CSV) == 0 {
		f.CSV = []byte(r.upload.rows.columns.header)
	}
	if f.FinishedAt.IsZero() {
		f.FinishedAt = r.run.Start
		if r.upload.rows.seq > 0 {
			f.FinishedAt = time.Unix(0, r.upload.rows.wall)
		}
	}
	return f
}

// finish sends the finish until it gets an answer. Before the first request it saves the intent:
// from then on the receiver may have closed the run, even if no answer confirms it.
//
// A receiver may refuse to close a run twice. If it refuses a repeated request, the delivery ends
// with a note. If it refuses the first request, finish removes the intent, and the next request
// counts as the first one again.
func (r *delivery) finish(ctx context.Context, f Finish) error {
	return r.d.api.send(ctx, func(ctx context.Context) error {
		isRepeated := finishSent(r.reg)
		if !isRepeated {
			if err := r.saveFinishIntent(time.Now()); err != nil {
				return err
			}
		}
		late, cancel := withGrace(ctx)
		defer cancel()
		err := r.d.client.Finish(late, f)
		switch {
		case err == nil:
			r.reg.FinishedAt = time.Now()
			return r.saveRegistration()
		case isRepeated && refusedAsClosed(err) && !lacksRecord(f, err):
			return r.unconfirmed(fmt.Errorf("it got no answer that confirms it, and is now refused: %w", err))
		case !isRepeated && notFinished(err):
			if err := r.saveFinishIntent(time.Time{}); err != nil {
				return err
			}
		}
		return err
	})
}

func (r *delivery) saveFinishIntent(at time.Time) error {
	r.reg.FinishIntentAt = at
	return r.saveRegistration()
}

// unconfirmed records that no answer confirmed the finish. The run counts as delivered.
func (r *delivery) unconfirmed(why error) error {
	err := fmt.Errorf("finish unconfirmed: the receiver has closed run %s, or has lost it; a finish was sent: %w", r.reg.RemoteID, why)
	if err := r.addEvent("finish", "finish unconfirmed", err.Error()); err != nil {
		return err
	}
	r.note = err
	return nil
}

// finishSent reports whether the receiver may have closed the run.
func finishSent(reg rt.Registration) bool { return !reg.FinishIntentAt.IsZero() }

// notFinished reports whether an answer to the first finish shows that the run was not closed. A
// 404 from a gateway shows nothing about the run.
func notFinished(err error) bool {
	isAbsent := hasStatus(err, http.StatusNotFound, http.StatusGone)
	isGateways := isAbsent && !isOwn(err, http.StatusNotFound, http.StatusGone)
	return refused(err) && !isGateways
}

// refusedAsClosed reports whether a repeated finish was refused because the run may be closed
// already. A gateway never sends 409 or 422 of its own accord. A 404 or 410 counts only if it comes
// from the API.
func refusedAsClosed(err error) bool {
	return hasStatus(err, http.StatusConflict, http.StatusUnprocessableEntity) ||
		isOwn(err, http.StatusNotFound, http.StatusGone)
}

// lacksRecord reports whether a finish was refused because the stored record may be another one than it
// names.
func lacksRecord(f Finish, err error) bool {
	return f.RecordSHA256 != "" && hasStatus(err, http.StatusUnprocessableEntity)
}

// Status returns the state in which the run ended, as section 9.2.3 names it. It is finished for
// exit code 0, for SIGTERM, and if nothing shows a failure; otherwise failed.
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

// exitCode returns the exit code of the run; absent if a signal ended the run.
func exitCode(run *rt.Run) rt.Opt[int64] {
	if run.ExitSignal.Or(0) != 0 {
		return rt.None[int64]()
	}
	return run.ExitCode
}
