package upload

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/resource-tracker/rt"
)

// register registers the run, unless it is registered. It saves the intent before it sends the
// request. There is no idempotency key: if the response is lost, the receiver may keep a run that
// never finishes. So the next attempt counts as a possible duplicate. register also saves the
// scope, which never changes again, so that all batches have the same figures.
func (r *delivery) register(ctx context.Context) error {
	reg, known, err := r.spooled.Registration()
	if err != nil {
		return unreadable("read the registration", err)
	}
	here := r.d.client.Endpoint()
	if hasMoved := known && reg.Endpoint != here; hasMoved && !finishSent(reg) {
		if err := r.addEvent("register", "moved", fmt.Sprintf("was registered at %s as %q, starts again at %s", reg.Endpoint, reg.RemoteID, here)); err != nil {
			return err
		}
		reg = rt.Registration{Scope: reg.Scope}
	}
	reg.Scope = cmp.Or(reg.Scope, r.d.opts.Scope)
	r.reg = reg
	if reg.RemoteID == "" {
		return r.reregister(ctx)
	}
	return nil
}

func (r *delivery) reregister(ctx context.Context) error {
	unanswered := !r.reg.IntentAt.IsZero()
	host := r.spooled.Host()
	var answer Registered
	err := r.d.api.send(ctx, func(ctx context.Context) error {
		if unanswered {
			if err := r.noteDuplicate(); err != nil {
				return err
			}
		}
		if err := r.saveIntent(time.Now(), 1); err != nil {
			return err
		}
		late, cancel := withGrace(ctx)
		defer cancel()
		var err error
		answer, err = r.d.client.Register(late, r.run, host)
		if err == nil {
			return nil
		}
		unanswered = !refused(err)
		if unanswered {
			return err
		}
		if saveErr := r.saveIntent(time.Time{}, 0); saveErr != nil {
			return saveErr
		}
		return err
	})
	if err != nil {
		return err
	}
	r.cred = answer.Credentials
	r.reg.Dialect, r.reg.RemoteID = answer.Dialect, answer.RemoteID
	r.reg.UploadURIPrefix, r.reg.Record, r.reg.RegisteredAt = answer.UploadURIPrefix, answer.Record, time.Now()
	return r.saveRegistration()
}

// answerGrace is the time for which a registration or finish waits for its response after the drain
// was stopped. Without the response it is unknown whether the receiver has registered or closed the
// run.
const answerGrace = 3 * time.Second

// withGrace returns a context that ends answerGrace after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(answerGrace, cancel) })
	return late, func() { stop(); cancel() }
}

func (r *delivery) saveIntent(at time.Time, requests int) error {
	r.reg.Endpoint, r.reg.IntentAt = r.d.client.Endpoint(), at
	r.reg.Attempts += requests
	return r.saveRegistration()
}

func (r *delivery) saveRegistration() error {
	return unwritable("save the registration", r.spooled.SaveRegistration(r.reg))
}

func (r *delivery) noteDuplicate() error {
	if r.duplicate {
		return nil
	}
	r.duplicate = true
	r.noteProblem(&r.d.sum.PossibleDuplicates, errDuplicate)
	return r.addEvent("register", "possible duplicate", errDuplicate.Error())
}

// refreshCredentials replaces credentials that are missing or about to expire. If the receiver no longer
// knows the run, it has no data of the run, and the delivery starts again, once.
func (r *delivery) refreshCredentials(ctx context.Context) error {
	if !r.cred.stale(time.Now()) {
		return nil
	}
	err := r.d.api.send(ctx, func(ctx context.Context) error {
		cred, err := r.d.client.Refresh(ctx, r.reg.RemoteID)
		if err == nil {
			r.cred = cred
		}
		return err
	})
	return r.orForgotten(err)
}

// orForgotten returns a forgottenError if the API itself answers that it does not know the run. A
// 404 of a gateway has no information about the run. After a finish was sent, the answer may mean that the run is
// closed: a second registration would then deliver all rows twice.
func (r *delivery) orForgotten(err error) error {
	if finishSent(r.reg) || !isOwn(err, http.StatusNotFound, http.StatusGone) {
		return err
	}
	return &forgottenError{err: err}
}

// forgottenError means that the receiver no longer knows a run that it had registered.
type forgottenError struct{ err error }

func (e *forgottenError) Error() string { return e.err.Error() }
func (e *forgottenError) Unwrap() error { return e.err }

func (r *delivery) startAgain(ctx context.Context, cause error) error {
	again := fmt.Errorf("registered again, because the receiver no longer knows run %s: %w", r.reg.RemoteID, cause)
	if err := r.addEvent("register", "forgotten", again.Error()); err != nil {
		return err
	}
	r.noteProblem(&r.d.sum.PossibleDuplicates, again)
	r.reg, r.cred = rt.Registration{Scope: r.reg.Scope, Attempts: r.reg.Attempts}, Credentials{}
	r.upload.rewind()
	return r.reregister(ctx)
}

func (r *delivery) addEvent(name, status, detail string) error {
	e := rt.Event{Time: time.Now(), Kind: rt.EventDelivery, Name: name, Status: status, Detail: detail}
	return unwritable("write an event", r.spooled.AddEvent(e))
}
