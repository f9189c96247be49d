package upload_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// gateway is the 404 of a gateway that does not find the API.
func gateway() error { return fault(upload.Permanent, http.StatusNotFound, 0) }

func (f *fakeRun) has(status string) bool {
	return slices.ContainsFunc(f.events, func(e rt.Event) bool { return e.Status == status })
}

// The receiver does the finish, but its answer is lost. Then a gateway answers 404 to everything.
// Then the API works again, and hides the closed run. No row is sent twice. A receiver that was
// restored from a backup gets the objects again that it confirmed after the backup. This holds also
// after a finish without an answer. If it refuses the finish again, each drain ends after one
// upload.
func TestRestoredReceiverGetsItsObjectsAgain(t *testing.T) {
	for _, isSent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, r := &fakeClient{takes: true}, newRun(1, 9)
			fails := map[bool]string{false: "record", true: "finish"}[isSent]
			c.fault = func(what string, _ int) error { return pick(what == fails, lost()) }
			if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil || finishSent(r) != isSent {
				t.Fatalf("%v, %+v", err, r.reg)
			}
			clear(c.objects)
			c.fault = nil
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if err != nil || sum.Delivered != 1 || len(sum.Problems) != 1 || sum.FinishUnconfirmed != 0 || !r.has("uploaded again") || c.registered != 1 {
				t.Fatalf("sent %v: %+v, %v, %+v", isSent, sum, err, r.events)
			}
			rows := ""
			for _, uri := range c.finished["r1"].URIs {
				rows += text(t, c.objects[uri])
			}
			checkRows(t, rows, r)
		})
	}
	c, r := &fakeClient{takes: true}, newRun(1, 9)
	c.fault = func(what string, _ int) error { return pick(what == "record", lost()) }
	_, _ = drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1})
	before := c.calls["put"]
	c.fault = func(what string, _ int) error { return pick(what == "finish", own(http.StatusUnprocessableEntity)) }
	sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
	if !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 || c.calls["put"] != 2*before || c.calls["finish"] != 2 {
		t.Errorf("%+v, %v, %v", sum, err, c.calls)
	}
}

// A receiver that refuses the finish for another reason gets the whole run again once a day, not at each drain.
func TestARefusedRunIsUploadedAgainOnceADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := &fakeClient{takes: true}, newRun(1, 9)
		c.fault = func(what string, _ int) error { return pick(what == "record", lost()) }
		_, _ = drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1})
		once := c.calls["put"]
		c.fault = func(what string, _ int) error { return pick(what == "finish", own(http.StatusUnprocessableEntity)) }
		for hour := range 50 {
			if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			if want := once * (2 + hour/24); c.calls["put"] != want {
				t.Fatalf("after %d hours: %d uploads, not %d", hour, c.calls["put"], want)
			}
			time.Sleep(time.Hour)
		}
		clear(c.objects) // the receiver is restored from a backup
		c.fault = nil
		time.Sleep(24 * time.Hour)
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil || sum.Delivered != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

func finishSent(r *fakeRun) bool { return !r.reg.FinishIntentAt.IsZero() }

func TestAClosedRunIsNeverRegisteredAgain(t *testing.T) {
	for _, status := range []int{404, 409, 410, 422} {
		synctest.Test(t, func(t *testing.T) {
			r, c := newRun(1, 9), &fakeClient{closedAs: status}
			drainOnce := func() (upload.Summary, error) { return drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}) }
			c.after = func(what string, _ int) error { return pick(what == "finish", lost()) }
			if sum, err := drainOnce(); !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 {
				t.Fatalf("answer lost: %+v, %v", sum, err)
			}
			c.after, c.fault = nil, func(string, int) error { return gateway() }
			if sum, err := drainOnce(); !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 || r.delivered {
				t.Fatalf("gateway: %+v, %v", sum, err)
			}
			c.fault = nil
			sum, err := drainOnce()
			if err != nil || !r.delivered || sum.FinishUnconfirmed != 1 || !r.has("finish unconfirmed") || len(sum.Problems) != 1 {
				t.Errorf("%d: %+v, %v, %+v", status, sum, err, r.events)
			}
			if c.registered != 1 || len(c.finished) != 1 || c.calls["put"] != 1 {
				t.Errorf("%d: %d registered, %v", status, c.registered, c.calls)
			}
		})
	}
}

// A finish without an answer is repeated at once, and the receiver refuses it.
func TestARefusedSecondFinishIsTheEnd(t *testing.T) {
	for name, answer := range map[string]error{
		"reset": lost(), "a gateway's 502": fault(upload.Temporary, 502, 0), "a timeout": fault(upload.Temporary, 504, 0),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{after: func(what string, n int) error { return pick(what == "finish" && n == 1, answer) }}
			r := newRun(1, 9)
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if err != nil || sum.Delivered != 1 || sum.FinishUnconfirmed != 1 || !r.has("finish unconfirmed") || c.registered != 1 {
				t.Errorf("%s: %+v, %v, %+v", name, sum, err, r.events)
			}
		})
	}
}

// The first finish is refused, so nothing was closed, and no later drain counts it as a success.
func TestARefusedFirstFinishIsNoSuccess(t *testing.T) {
	foreign := fault(upload.Permanent, http.StatusConflict, 0)
	for _, answer := range []error{own(400), own(404), own(409), foreign, own(410), own(422)} {
		synctest.Test(t, func(t *testing.T) {
			r, c := newRun(1, 9), &fakeClient{}
			c.fault = func(what string, _ int) error { return pick(what == "finish", answer) }
			for range 3 {
				if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); !errors.Is(err, upload.ErrTemporary) || r.delivered || sum.FinishUnconfirmed != 0 {
					t.Fatalf("%v: %+v, %v", answer, sum, err)
				}
			}
			c.fault = nil
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if err != nil || sum.FinishUnconfirmed != 0 || len(c.finished) != 1 || c.registered != 1 {
				t.Errorf("%v: %+v, %v, %d registered", answer, sum, err, c.registered)
			}
		})
	}
}

// A finish without an answer is repeated and refused as invalid. That does not mean that the run is
// closed.
func TestAnInvalidFinishIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRun(1, 9), &fakeClient{}
		c.fault = func(what string, n int) error {
			if what == "finish" && n == 1 {
				return lost()
			}
			return pick(what == "finish", own(400))
		}
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); !errors.Is(err, upload.ErrTemporary) || r.delivered || c.calls["finish"] != 2 {
			t.Errorf("%+v, %v, %v", sum, err, c.calls)
		}
	})
}

// The file is locked when a run with an unconfirmed finish is marked delivered. The run counts
// once.
func TestAnUnconfirmedFinishIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRun(1, 9), &fakeClient{after: func(what string, n int) error { return pick(what == "finish" && n == 1, lost()) }}
		if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
			t.Fatal("delivered")
		}
		r.locked = 1
		sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
		if err != nil || r.locked != 0 || sum.Delivered != 1 || sum.FinishUnconfirmed != 1 || len(sum.Problems) != 1 {
			t.Errorf("%+v, %v", sum, err)
		}
	})
}

// A drain that is stopped during a finish waits for the answer.
func TestAStoppedDrainWaitsForTheAnswerToItsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := newRun(1, 9), &fakeClient{slow: time.Second} // registration, upload and finish end after 1, 2 and 3 s
		ctx, stop := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer stop()
		sum, err := upload.Drain(ctx, dirOf(r), c, c, upload.DrainOptions{})
		if err != nil || sum.Delivered != 1 || r.reg.FinishedAt.IsZero() {
			t.Errorf("%+v, %v, %+v", sum, err, r.reg)
		}
	})
}

// A gateway's 404 to a request for credentials does not mean that the receiver has lost the run.
func TestOnlyTheAPIForgetsARun(t *testing.T) {
	for _, tc := range []struct {
		answer     error
		registered int
	}{{gateway(), 1}, {fault(upload.Permanent, http.StatusGone, 0), 1}, {own(404), 2}, {own(410), 2}} {
		synctest.Test(t, func(t *testing.T) {
			r, c := newRun(1, 9), &fakeClient{}
			c.fault = func(what string, _ int) error { return pick(what == "put", fault(upload.Temporary, 503, 0)) }
			if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
				t.Fatal("delivered")
			}
			c.fault = func(what string, n int) error { return pick(what == "refresh" && n == 1, tc.answer) }
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if again := tc.registered == 2; (err == nil) != again || (sum.PossibleDuplicates == 1) != again || r.has("forgotten") != again {
				t.Errorf("%v: %+v, %v", tc, sum, err)
			}
			if _, err = drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil || c.registered != tc.registered || len(c.finished) != 1 {
				t.Errorf("%v: %v, %d registered, %d finished", tc, err, c.registered, len(c.finished))
			}
		})
	}
}

// A receiver loses its store after the uploads. The next drain has no answer about the run yet, so
// it requests credentials before the finish. The answer shows that the run is lost.
func TestARunThatTheReceiverForgotBeforeItsFinishStartsAgain(t *testing.T) {
	for _, answer := range []error{fault(upload.Temporary, 429, 0), own(404), own(410)} {
		synctest.Test(t, func(t *testing.T) {
			r, c := newRun(1, 9), &fakeClient{}
			c.fault = func(what string, _ int) error { return pick(what == "finish", answer) }
			if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
				t.Fatal("delivered")
			}
			c.fault = nil
			c.forget()
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if err != nil || sum.Delivered != 1 || sum.PossibleDuplicates != 1 || len(c.finished["r2"].URIs) != 1 {
				t.Fatalf("%v: %+v, %v, %+v", answer, sum, err, c.finished)
			}
		})
	}
}

// The endpoint is changed after a finish without an answer. The new one may be another receiver, or
// the same one under another name. The run is kept until the endpoint is set back.
func TestAFinishedRunDoesNotMove(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		r, c := newRun(1, 9), &fakeClient{}
		r.reg, r.known = rt.Registration{Endpoint: "http://elsewhere", Dialect: upload.DialectSpec, RemoteID: "old", UploadURIPrefix: "s3://b/p", FinishIntentAt: start}, true
		if confirmed {
			r.reg.FinishedAt = start
		}
		sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
		if (err == nil) != confirmed || r.delivered != confirmed || len(c.calls) != 0 || sum.FinishUnconfirmed != 0 {
			t.Errorf("confirmed %v: %+v, %v, %v", confirmed, sum, err, c.calls)
		}
		if confirmed {
			continue
		}
		p := sum.Problems
		if !errors.Is(err, upload.ErrTemporary) || len(p) != 1 || !strings.Contains(p[0].Error, "http://elsewhere") || !strings.Contains(p[0].Error, "gc --undelivered") {
			t.Errorf("%+v, %v", sum, err)
		}
		r.reg.Endpoint, c.known = c.Endpoint(), []string{"old"} // as if the endpoint were set back
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil || len(c.finished) != 1 || sum.FinishUnconfirmed != 0 {
			t.Errorf("set back: %+v, %v", sum, err)
		}
	}
}

// The same for a stream: it reports the note, because its ledger may be removed.
func TestAStreamNotesAnUnconfirmedFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{after: func(what string, n int) error { return pick(what == "finish" && n == 1, lost()) }}
		r := newRun(1, 9)
		s := upload.NewStream(c, c, upload.DrainOptions{})
		if err := s.Sync(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := s.Finish(t.Context(), r); err != nil || !r.delivered || c.registered != 1 {
			t.Errorf("%v, %d registered", err, c.registered)
		}
		if p := s.Problems(); len(p) != 1 || !strings.Contains(p[0].Error, "finish unconfirmed") || !strings.Contains(fmt.Sprint(p[0]), "run r1") {
			t.Errorf("%+v", p)
		}
	})
}
