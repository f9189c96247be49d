package upload_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/upload"
)

// growing is a run with the first n snapshots, which its tracker still writes.
func growing(r *fakeRun) (run *fakeRun, upTo func(n int)) {
	all := r.snaps
	return r, func(n int) { r.snaps = all[:min(n, len(all))] }
}

func text(t *testing.T, packed []byte) string {
	t.Helper()
	gz, err := gzip.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := gz.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// T-STR-03: the finish names the URIs of all uploaded batches, in order and once each, also after
// failed uploads. Their rows are all rows.
func TestT_STR_03(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{fault: func(what string, n int) error {
			return pick(what == "put" && (n == 2 || n == 3), fault(upload.Temporary, 503, 0))
		}}
		r, upTo := growing(newRun(1, 40))
		s := upload.NewStream(c, c, upload.DrainOptions{Tries: 1})
		var failed int
		for n := 5; n <= 40; n += 5 {
			upTo(n)
			if err := s.Sync(t.Context(), r); err != nil {
				failed++
			}
		}
		upTo(100)
		if err := s.Finish(t.Context(), r); err != nil || !r.delivered || failed != 2 {
			t.Fatalf("%v, delivered %v, %d failures", err, r.delivered, failed)
		}
		f := c.finished[r.reg.RemoteID]
		var keys []string
		csv := resourcetracker.CSVHeader
		for _, b := range r.batches {
			keys = append(keys, b.Key)
			if b.UploadedAt.IsZero() {
				t.Errorf("batch %d is not marked", b.Number)
			}
			_, rows, _ := strings.Cut(text(t, c.objects[b.Key]), "\n")
			csv += rows
		}
		if !slices.Equal(f.URIs, keys) || len(f.CSV) != 0 || !slices.Equal(slices.Sorted(maps.Keys(c.objects)), keys) {
			t.Errorf("finish names %q, the ledger %q", f.URIs, keys)
		}
		checkRows(t, csv, r)
	})
}

// The rows of an upload that failed are the same when they are built again, also for interfaces that only the
// lists of a snapshot have.
func TestFailedUploadIsBuiltAgainTheSame(t *testing.T) {
	deliver := func(isFailing bool) (objects map[string][]byte) {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{fault: func(what string, n int) error {
				return pick(isFailing && what == "put" && n == 2, fault(upload.Temporary, 503, 0))
			}}
			r, upTo := growing(newRun(1, 30))
			for i := range r.snaps {
				bytes := rt.Some(uint64(i*i) << 20)
				r.snaps[i].Nets = []rt.NetReading{{Name: "eth0", Driver: "mlx5_core"}, {Name: "br0", RxBytes: bytes, TxBytes: bytes}}
			}
			s := upload.NewStream(c, c, upload.DrainOptions{Tries: 1})
			for n := 10; n <= 30; n += 5 {
				upTo(n)
				err := s.Sync(t.Context(), r)
				if isFailing && n == 15 {
					if err == nil {
						t.Error("the upload did not fail")
					}
					err = s.Sync(t.Context(), r)
				}
				if err != nil {
					t.Error(err)
				}
			}
			objects = c.objects
		})
		return objects
	}
	if d := cmp.Diff(deliver(false), deliver(true)); d != "" {
		t.Error(d)
	}
}

// T-STR-04: credentials are replaced before an upload when five minutes or less
// remain, and not before.
func TestT_STR_04(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{life: 10 * time.Minute}
		r, upTo := growing(newRun(1, 40))
		s := upload.NewStream(c, c, upload.DrainOptions{})
		upTo(1)
		if err := s.Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait      time.Duration
			refreshes int
		}{
			{time.Minute, 0}, {4*time.Minute - time.Nanosecond, 0}, {time.Nanosecond, 1}, // 5 minutes remain
			{5*time.Minute - time.Nanosecond, 1}, {time.Nanosecond, 2}, {time.Hour, 3},
		} {
			time.Sleep(step.wait)
			upTo(len(r.snaps) + 3)
			if err := s.Sync(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if c.calls["refresh"] != step.refreshes {
				t.Errorf("%s later: %d refreshes, want %d", step.wait, c.calls["refresh"], step.refreshes)
			}
		}
		for i, cred := range c.creds {
			if !cred.Expiration.After(r.batches[i].UploadedAt.Add(5 * time.Minute)) {
				t.Errorf("batch %d went with credentials that end %s", i+1, cred.Expiration.Sub(r.batches[i].UploadedAt))
			}
		}
	})
}

// A short run without uploads is delivered inline, as a whole. A repeated
// finish, also by a drain, says the very same.
func TestInlineFinishIsTheSameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := 0
		c := &fakeClient{}
		c.fault = func(what string, n int) error {
			if what == "finish" {
				answers++
				return pick(answers == 1, lost())
			}
			return nil
		}
		r := newRun(1, 30)
		s := upload.NewStream(c, c, upload.DrainOptions{Tries: 1})
		if err := s.Finish(t.Context(), r); err == nil || r.delivered {
			t.Fatalf("an answer that was lost: %v", err)
		}
		sealed := slices.Clone(r.batches)
		if sum, err := drain(t, dirOf(r), c, upload.DrainOptions{BatchRows: 7}); err != nil || sum.Delivered != 1 {
			t.Fatalf("%+v, %v", sum, err)
		}
		f := c.finished[r.reg.RemoteID]
		if len(f.URIs) != 0 || c.calls["put"] != 0 || c.registered != 1 || !slices.Equal(r.batches, sealed) {
			t.Errorf("%d URIs, %d uploads, %d registrations, batches %+v", len(f.URIs), c.calls["put"], c.registered, r.batches)
		}
		checkRows(t, string(f.CSV), r)
	})
}

// Where no upload succeeded, the finish carries the rows that were sealed in vain.
func TestAStoreThatIsDownAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{fault: func(what string, _ int) error { return pick(what == "put", fault(upload.Temporary, 500, 0)) }}
		r, upTo := growing(newRun(1, 30))
		s := upload.NewStream(c, c, upload.DrainOptions{Tries: 2})
		for n := 10; n <= 20; n += 5 {
			upTo(n)
			if err := s.Sync(t.Context(), r); err == nil {
				t.Error("an upload succeeded")
			}
		}
		if len(r.batches) != 1 || c.calls["put"] != 6 {
			t.Errorf("batches %+v after %d requests", r.batches, c.calls["put"])
		}
		upTo(100)
		if err := s.Finish(t.Context(), r); err != nil || c.calls["put"] != 8 {
			t.Fatalf("%v after %d uploads", err, c.calls["put"])
		}
		checkRows(t, string(c.finished[r.reg.RemoteID].CSV), r)
	})
}

// Once something was uploaded, or where the run is long, all of it goes
// through the store.
func TestUploadedOrLongRunsGoThroughTheStore(t *testing.T) {
	for _, n := range []int{50, 5000} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{}
			r, upTo := growing(newRun(1, n))
			s := upload.NewStream(c, c, upload.DrainOptions{BatchRows: 2000})
			if n == 50 {
				upTo(3)
				if err := s.Sync(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			upTo(n)
			if err := s.Finish(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if f := c.finished[r.reg.RemoteID]; len(f.CSV) != 0 || len(f.URIs) != len(r.batches) || len(f.URIs) < 2 {
				t.Errorf("%d snapshots: %d URIs of %d batches, %d bytes inline", n, len(f.URIs), len(r.batches), len(f.CSV))
			}
		})
	}
}

// ticking is a run that gets one more snapshot every ten seconds.
type ticking struct {
	*fakeRun
	began time.Time
}

func (r ticking) LastSeq() (int64, error) {
	return 1 + int64(time.Since(r.began)/(10*time.Second)), nil
}

// Section 9.2.2: a failed upload is retried, and three failures in a row are reported once. When
// the store is back, all waiting rows are sent. A receiver that is missing at the start is reported
// at once, and the registration is retried.
func TestStreamKeepsWhatItCannotSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := &fakeClient{fault: func(what string, _ int) error {
			at := time.Since(began)
			return pick(what == "register" && at < 30*time.Second || what == "put" && at > 90*time.Second && at < 400*time.Second, lost())
		}}
		r := newRun(1, 60)
		s := upload.NewStream(c, c, upload.DrainOptions{Tries: 2})
		var warnings []string
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Second)
		defer cancel()
		s.Run(ctx, ticking{r, began}, time.Minute, func(err error) {
			warnings = append(warnings, fmt.Sprintf("%.0f %v", time.Since(began).Minutes(), err))
		})
		if len(warnings) != 2 || !strings.HasPrefix(warnings[0], "0 the run is not registered") || !strings.HasPrefix(warnings[1], "4 uploads failed 3 times in a row") {
			t.Errorf("warnings %q", warnings)
		}
		if c.calls["register"] != 3 || c.calls["put"] != 1+5*2+2 || len(r.batches) != 3 { // each was tried twice
			t.Errorf("%v requests, batches %+v", c.calls, r.batches)
		}
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		csv := resourcetracker.CSVHeader
		for _, uri := range c.finished[r.reg.RemoteID].URIs {
			_, rows, _ := strings.Cut(text(t, c.objects[uri]), "\n")
			csv += rows
		}
		checkRows(t, csv, r)
	})
}

// The answer to a registration is awaited for a moment when the stream is ended;
// otherwise the receiver would hold an unknown run.
func TestARegistrationUnderWayIsNotBrokenOff(t *testing.T) {
	for _, tc := range []struct {
		slow  time.Duration
		known bool
	}{{2 * time.Second, true}, {time.Hour, false}} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{slow: tc.slow}
			r := newRun(1, 3)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			err := upload.NewStream(c, c, upload.DrainOptions{}).Start(ctx, r)
			if (err == nil) != tc.known || (r.reg.RemoteID != "") != tc.known || time.Since(began) > 4*time.Second {
				t.Errorf("an answer after %s: %v after %s, %+v", tc.slow, err, time.Since(began), r.reg)
			}
		})
	}
}

// A stream that is killed at any of its calls is made up for by a drain.
func TestAStreamKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		for _, sizes := range [][]int{{24}, {12, 12, 24}} {
			for at, alive := 1+random.Below(t, crashStep()), false; !alive; at += crashStep() {
				name := fmt.Sprintf("killed at call %d, late %v, %v", at, late, sizes)
				s := newSite(t, "")
				ctx, cancel := context.WithCancel(t.Context())
				k := &killer{at: at, late: late, kill: cancel}
				r, upTo := growing(newRun(1, 24))
				r.killer = k
				through := killed{killer: k, Client: s.client, store: s.store}
				stream := upload.NewStream(through, through, upload.DrainOptions{BatchRows: 10})
				var errs []error
				for _, n := range sizes[:len(sizes)-1] {
					upTo(n)
					errs = append(errs, stream.Sync(ctx, r))
				}
				upTo(24)
				err := errors.Join(append(errs, stream.Finish(ctx, r))...)
				cancel()
				if alive = !k.dead; alive != (err == nil) {
					t.Fatalf("%s: %v", name, err)
				}
				r.killer = nil
				if !alive {
					if _, err := upload.Drain(t.Context(), dirOf(r), s.client, s.store, upload.DrainOptions{BatchRows: 10}); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				list := s.list(t)
				finished := slices.DeleteFunc(list, func(x remoteRun) bool { return x.Status == "running" })
				if len(finished) != 1 || finished[0].ID != r.reg.RemoteID || !r.delivered {
					t.Fatalf("%s: %+v", name, finished)
				}
				checkRows(t, string(s.get(t, "/runs/"+r.reg.RemoteID+"/data")), r)
			}
		}
	}
}
