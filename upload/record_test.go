package upload_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

const recordURI = "s3://b/p/r1/" + upload.RecordName

// A run that is tracked has its record at the receiver, until less than 1/32 of its readings are new.
// Its end replaces the record.
func TestRecordOfALiveRun(t *testing.T) {
	whole := newRun(1, 200)
	run := &fakeRun{run: whole.run, snaps: whole.snaps[:1]}
	dir, c := dirOf(run), &fakeClient{takes: true}
	for _, pass := range []struct{ snapshots, records int }{{1, 1}, {5, 2}, {5, 2}, {6, 3}, {100, 4}, {101, 4}, {102, 4}, {103, 5}} {
		run.snaps = whole.snaps[:pass.snapshots]
		if _, err := upload.Drain(t.Context(), liveDir{dir}, c, c, upload.DrainOptions{Live: true}); err != nil {
			t.Fatal(err)
		}
		isCurrent := string(c.objects[recordURI]) == run.record()
		isNew := run.reg.RecordSeq == run.snaps[len(run.snaps)-1].Seq
		if c.calls["record"] != pass.records || isCurrent != isNew {
			t.Errorf("%d snapshots: %d records, %q", pass.snapshots, c.calls["record"], c.objects[recordURI])
		}
	}
	run.snaps = whole.snaps
	if _, err := drain(t, dir, c, upload.DrainOptions{}); err != nil || string(c.objects[recordURI]) != run.record() {
		t.Errorf("its end: %v, %q", err, c.objects[recordURI])
	}
	if f := c.finished["r1"]; f.RecordSHA256 != c.recordSum("r1") || string(f.Summary) != fmt.Sprintf(`{"elapsed_secs":%d}`, len(run.snaps)) || len(f.URIs) != 7 {
		t.Errorf("%+v", f)
	}
}

// A stream sends the record at the end only: while the job runs it would use the job's CPUs.
func TestRecordOfAStream(t *testing.T) {
	c, r := &fakeClient{takes: true}, newRun(1, 9)
	s := upload.NewStream(c, c, upload.DrainOptions{})
	if err := s.Sync(t.Context(), r); err != nil || c.calls["record"] != 0 {
		t.Fatal(err, c.calls)
	}
	if err := s.Finish(t.Context(), r); err != nil || c.finished["r1"].RecordSHA256 != c.recordSum("r1") || c.recordSum("r1") == "" {
		t.Errorf("%v, %v", err, c.finished)
	}
}

// A record above the limit is not sent, and the run is delivered without it.
func TestRecordTooLarge(t *testing.T) {
	for _, live := range []bool{false, true} {
		c, r := &fakeClient{takes: true}, newRun(1, 9)
		r.padding = 32 << 20
		var dir upload.Directory = dirOf(r)
		if live {
			dir = liveDir{dirOf(r)}
		}
		sum, err := upload.Drain(t.Context(), dir, c, c, upload.DrainOptions{Live: live})
		if err != nil || sum.Delivered+sum.LiveSent != 1 || c.calls["record"] != 0 || r.has("not sent") == live {
			t.Errorf("live %v: %+v, %v, %v, %+v", live, sum, err, c.calls, r.events)
		}
		if f := c.finished["r1"]; !live && (f.RecordSHA256 != "" || len(f.Summary) == 0) {
			t.Errorf("%+v", f)
		}
	}
}

// A 400 that does not refuse the content keeps the run, and the next drain delivers it with its record.
func TestRecordIsDamagedOnItsWay(t *testing.T) {
	for _, kind := range []upload.Kind{upload.Temporary, upload.Permanent} {
		synctest.Test(t, func(t *testing.T) {
			c, r := &fakeClient{takes: true}, newRun(1, 9)
			c.fault = func(what string, n int) error {
				return pick(what == "record" && n <= 2, &upload.Error{Op: "PUT x", Kind: kind, Status: http.StatusBadRequest, Code: "IncompleteBody", Err: errors.New("400")})
			}
			for range 3 {
				_, _ = drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1})
			}
			if f := c.finished["r1"]; c.calls["record"] != 3 || !r.delivered || f.RecordSHA256 != c.recordSum("r1") || f.RecordSHA256 == "" || r.has("not sent") {
				t.Errorf("%v, %+v, %+v", c.calls, f, r.events)
			}
		})
	}
}

// A record that the receiver or a proxy refuses does not keep the rows on the node. The run is
// delivered without its record, with an event and a message. That holds for a repeated finish too.
func TestRecordIsRefused(t *testing.T) {
	for status, code := range map[int]string{http.StatusBadRequest: "InvalidRequest", http.StatusConflict: "OperationAborted", http.StatusRequestEntityTooLarge: ""} {
		for _, repeated := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, r := &fakeClient{takes: true}, newRun(1, 9)
				refusal := func(what string) error {
					return pick(what == "record", &upload.Error{Op: "PUT x", Kind: upload.Permanent, Status: status, Code: code, Err: errors.New("refused")})
				}
				if repeated {
					c.fault = func(what string, _ int) error { return cmp.Or(refusal(what), pick(what == "finish", lost())) }
					if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
						t.Fatal("delivered")
					}
				}
				c.fault = func(what string, _ int) error { return refusal(what) }
				sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
				f := c.finished["r1"]
				isWhole := f.RecordSHA256 == "" && len(f.Summary) > 0 && len(f.URIs)+len(f.CSV) > 0
				if err != nil || sum.Delivered != 1 || sum.FinishUnconfirmed != 0 || !isWhole || !r.has("not sent") {
					t.Errorf("%d, repeated %v: %+v, %v, %+v, %+v", status, repeated, sum, err, f, r.events)
				}
				if !repeated && len(sum.Problems) != 1 {
					t.Errorf("%d: %+v", status, sum)
				}
				live := &fakeClient{takes: true, fault: c.fault}
				_, err = upload.Drain(t.Context(), liveDir{dirOf(newRun(1, 9))}, live, live, upload.DrainOptions{Live: true})
				if err != nil || live.calls["put"] == 0 {
					t.Errorf("%d: a run that is tracked: %v, %v", status, err, live.calls)
				}
			})
		}
	}
}

// A record that cannot be stored is sent again, and the run is not finished without it.
func TestRecordIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := &fakeClient{takes: true}, newRun(1, 9)
		c.fault = func(what string, n int) error {
			return pick(what == "record" && n <= 6, fault(upload.Temporary, 503, 0))
		}
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 || len(c.finished) != 0 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil || sum.Delivered != 1 || c.calls["record"] != 7 || c.calls["put"] != 1 {
			t.Errorf("%+v, %v, %v", sum, err, c.calls)
		}
	})
}

// The receiver has another record than the one that the finish names, as after it was restored from a
// backup. The first finish was refused, and the next drain sends the record again. A repeated finish is
// sent without the record.
func TestFinishWithoutItsRecord(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, r := &fakeClient{takes: true}, newRun(1, 9)
			if repeated {
				c.fault = func(what string, _ int) error { return pick(what == "finish", lost()) }
				if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
					t.Fatal("delivered")
				}
			}
			c.fault = func(what string, _ int) error {
				if what == "finish" {
					c.objects[recordURI] = []byte("another one")
				}
				return nil
			}
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if r.delivered != repeated || errors.Is(err, upload.ErrTemporary) == repeated || sum.FinishUnconfirmed != 0 || r.has("unconfirmed") != repeated {
				t.Fatalf("%+v, %v, %+v", sum, err, r.events)
			}
			if f := c.finished["r1"]; repeated && (f.RecordSHA256 != "" || len(f.Summary) == 0 || len(sum.Problems) != 1) {
				t.Errorf("%+v, %+v", sum, f)
			}
			if repeated {
				return
			}
			c.fault = nil
			if sum, err = drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil || sum.Delivered != 1 || string(c.objects[recordURI]) != r.record() {
				t.Errorf("%+v, %v, %q", sum, err, c.objects[recordURI])
			}
		})
	}
}

// A receiver refuses each repeated finish with 422, for a reason that is not the record or an object. The
// run is delivered after one more upload and two more requests.
func TestARefusedFinishWithARecordEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := &fakeClient{takes: true}, newRun(1, 9)
		c.fault = func(what string, n int) error {
			return pick(what == "finish", cmp.Or(pick(n > 1, own(http.StatusUnprocessableEntity)), lost()))
		}
		if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
			t.Fatal("delivered")
		}
		sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
		if err != nil || sum.Delivered != 1 || sum.FinishUnconfirmed != 1 || c.calls["finish"] != 4 || c.calls["put"] != 2 || !r.has("finish unconfirmed") || c.registered != 1 {
			t.Errorf("%+v, %v, %v, %+v", sum, err, c.calls, r.events)
		}
	})
}

// Figures above the limit are not sent, and the ledger has an event.
func TestFiguresTooLarge(t *testing.T) {
	c, r := &fakeClient{takes: true}, newRun(1, 9)
	r.figures = `{"x":"` + strings.Repeat("x", 64<<10) + `"}`
	sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
	if f := c.finished["r1"]; err != nil || len(f.Summary) != 0 || f.RecordSHA256 == "" || !r.has("not sent") || len(sum.Problems) != 1 {
		t.Errorf("%+v, %v, %+v, %+v", sum, err, f, r.events)
	}
}

// A receiver of records hides closed runs. The record of a repeated finish cannot be sent, and the
// answer to the finish decides, as without records.
func TestRecordOfAHiddenRun(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity} {
		synctest.Test(t, func(t *testing.T) {
			c, r := &fakeClient{takes: true, hides: true, closedAs: status}, newRun(1, 9)
			c.after = func(what string, _ int) error { return pick(what == "finish", lost()) }
			if _, err := drain(t, dirOf(r), c, upload.DrainOptions{Tries: 1}); err == nil {
				t.Fatal("delivered")
			}
			c.after = nil
			r.run.Outcome = rt.OutcomeFailed
			sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
			if err != nil || sum.FinishUnconfirmed != 1 || c.registered != 1 || c.finished["r1"].RecordSHA256 != c.recordSum("r1") {
				t.Errorf("%d: %+v, %v, %d registered", status, sum, err, c.registered)
			}
		})
	}
}
