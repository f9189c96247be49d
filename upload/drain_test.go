package upload_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

func fault(kind upload.Kind, status int, after time.Duration) error {
	return &upload.Error{Op: "POST x", Kind: kind, Status: status, RetryAfter: after, Err: errors.New("fault")}
}

func lost() error { return upload.NoAnswer("POST x", errors.New("connection reset")) }

func dirOf(runs ...*fakeRun) *fakeDir {
	d := &fakeDir{runs: map[string]*fakeRun{}}
	for _, r := range runs {
		d.runs[r.run.FileStem()] = r
	}
	return d
}

func drain(t *testing.T, d *fakeDir, c *fakeClient, o upload.DrainOptions) (upload.Summary, error) {
	t.Helper()
	return upload.Drain(t.Context(), d, c, c, o)
}

// A file of another version waits, and is not counted as damaged.
func TestDrainKeepsFilesOfOtherVersions(t *testing.T) {
	_, old := spool.Open("../spool/testdata/before-0.2.0/ended.db")
	unread := newRun(1, 2)
	unread.readErr = old
	d := dirOf(unread, newRun(2, 1))
	d.extra = []upload.Entry{{Name: "old", Err: old}}
	sum, err := drain(t, d, &fakeClient{}, upload.DrainOptions{})
	if sum.Delivered != 1 || sum.Damaged != 0 || sum.Failed != 2 || !errors.Is(err, upload.ErrTemporary) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestDrainDeliversTheOldestFirstAndLeavesTheRestAlone(t *testing.T) {
	d := dirOf(newRun(3, 5), newRun(1, 5), newRun(2, 1), newRun(4, 0))
	d.extra = []upload.Entry{{Name: "live", Live: true}, {Name: "broken", Err: errors.New("not a database")}}
	c := &fakeClient{}
	sum, err := drain(t, d, c, upload.DrainOptions{Concurrency: 1, BatchRows: 2})
	if !errors.Is(err, upload.ErrDamaged) || errors.Is(err, upload.ErrTemporary) {
		t.Errorf("error %v", err)
	}
	if sum.Delivered != 4 || sum.Live != 1 || sum.Damaged != 1 || sum.Rows != 8 || sum.PossibleDuplicates != 0 {
		t.Errorf("%+v", sum)
	}
	if len(sum.Problems) != 1 || sum.Problems[0].Run != "broken" {
		t.Errorf("problems %+v", sum.Problems)
	}
	if !slices.IsSortedFunc(d.order, func(a, b string) int { return strings.Compare(a, b) }) {
		t.Errorf("order %v", d.order)
	}
	for _, r := range d.runs {
		if r.opened != r.closed {
			t.Errorf("opened %d times, closed %d times", r.opened, r.closed)
		}
	}
	f := c.finished["r2"]
	if len(f.URIs) != 0 || string(f.CSV) != resourcetracker.CSVHeader {
		t.Errorf("a run without rows was finished with %+v", f)
	}
	want := []string{"s3://b/p/r1/000001.csv.gz", "s3://b/p/r1/000002.csv.gz"}
	if got := c.finished["r1"].URIs; !slices.Equal(got, want) {
		t.Errorf("URIs %v", got)
	}
	sum, err = drain(t, dirOf(), c, upload.DrainOptions{})
	js, jerr := json.Marshal(sum)
	if err != nil || jerr != nil || !strings.Contains(string(js), `"problems":[]`) {
		t.Errorf("an empty spool: %v, %s", err, js)
	}
	before := fmt.Sprint(c.calls)
	d.extra = nil
	if sum, err = drain(t, d, c, upload.DrainOptions{}); err != nil || sum.Delivered != 0 || fmt.Sprint(c.calls) != before {
		t.Errorf("a second drain sent something: %+v, %v, %v, was %v", sum, err, c.calls, before)
	}
}

// A run whose file stays locked is retried after all other runs. They do not wait, and no request
// is sent for the locked run.
func TestLockedRunsAreTriedLast(t *testing.T) {
	for locks, wantErr := range map[int]error{1: nil, 2: upload.ErrTemporary} {
		d := dirOf(newRun(1, 5), newRun(2, 5), newRun(3, 5))
		oldest := d.runs[newRun(1, 0).run.FileStem()]
		oldest.locked = locks
		c := &fakeClient{}
		sum, err := drain(t, d, c, upload.DrainOptions{Concurrency: 1})
		if !errors.Is(err, wantErr) || sum.Damaged != 0 || sum.PossibleDuplicates != 0 || sum.Delivered+sum.Failed != 3 || sum.Failed != locks-1 {
			t.Errorf("locked %d times: %+v, %v", locks, sum, err)
		}
		if n := len(d.order); n != 4 || d.order[0] != oldest.run.FileStem() || d.order[3] != d.order[0] {
			t.Errorf("locked %d times: order %v", locks, d.order)
		}
		if c.calls["register"] != sum.Delivered {
			t.Errorf("locked %d times: %v", locks, c.calls)
		}
		sum, err = drain(t, d, c, upload.DrainOptions{})
		if err != nil || sum.Delivered != locks-1 {
			t.Errorf("the next drain: %+v, %v", sum, err)
		}
	}
}

// A file that makes this program panic is one damaged file; the others are delivered.
func TestOneFileBringsNoDrainDown(t *testing.T) {
	poisoned := newRun(1, 5)
	poisoned.poison = true
	d := dirOf(poisoned, newRun(2, 5))
	c := &fakeClient{}
	sum, err := drain(t, d, c, upload.DrainOptions{Concurrency: 1})
	if !errors.Is(err, upload.ErrDamaged) || sum.Delivered != 1 || sum.Damaged != 1 || poisoned.opened != poisoned.closed {
		t.Errorf("%+v, %v", sum, err)
	}
	if len(sum.Problems) != 1 || !strings.Contains(sum.Problems[0].Error, "index out of range") || !strings.Contains(sum.Problems[0].Error, "fake_test.go:") {
		t.Errorf("problems: %+v", sum.Problems)
	}
}

// Credentials within five minutes of their end are replaced before an upload.
func TestCredentialsAreRefreshedInTime(t *testing.T) {
	for _, tc := range []struct {
		life      time.Duration
		refreshes int
	}{{0, 0}, {6 * time.Minute, 1}, {5 * time.Minute, 3}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{life: tc.life, slow: 30 * time.Second}
			sum, err := drain(t, dirOf(newRun(1, 7)), c, upload.DrainOptions{BatchRows: 2})
			if err != nil || sum.Delivered != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			if c.calls["refresh"] != tc.refreshes {
				t.Errorf("life %v: %d refreshes, want %d", tc.life, c.calls["refresh"], tc.refreshes)
			}
		})
	}
}

func TestRefusedCredentialsAreReplacedOnce(t *testing.T) {
	for _, always := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{fault: func(what string, n int) error {
				if what == "put" && (always || n == 1) {
					return fault(upload.Unauthorised, 403, 0)
				}
				return nil
			}}
			sum, err := drain(t, dirOf(newRun(1, 3)), c, upload.DrainOptions{})
			if c.calls["refresh"] != 1 {
				t.Errorf("%d refreshes", c.calls["refresh"])
			}
			if always && (!errors.Is(err, upload.ErrTemporary) || errors.Is(err, upload.ErrConfig) || sum.Failed != 1 || c.calls["put"] != 2) {
				t.Errorf("always refused: %+v, %v, %v", sum, err, c.calls)
			}
			if !always && (err != nil || sum.Delivered != 1) {
				t.Errorf("refused once: %+v, %v", sum, err)
			}
		})
	}
}

func TestDeadlineAndCancellationKeepWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{slow: 10 * time.Second}
		d := dirOf(newRun(1, 3), newRun(2, 3), newRun(3, 3))
		before := time.Now()
		sum, err := drain(t, d, c, upload.DrainOptions{Concurrency: 1, Deadline: 45 * time.Second})
		if !errors.Is(err, upload.ErrTemporary) || sum.Delivered != 1 || sum.Waiting != 2 {
			t.Errorf("%+v, %v", sum, err)
		}
		if took := time.Since(before); took > time.Minute {
			t.Errorf("took %v", took)
		}
		if sum, err = drain(t, d, c, upload.DrainOptions{Concurrency: 1}); err != nil || sum.Delivered != 2 || c.registered != 3 {
			t.Errorf("%+v, %v, %d registered", sum, err, c.registered)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := upload.Drain(ctx, dirOf(newRun(9, 3)), c, c, upload.DrainOptions{}); !errors.Is(err, upload.ErrTemporary) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestJitterAndConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{slow: time.Second}
		var runs []*fakeRun
		for i := range 30 {
			runs = append(runs, newRun(uint64(i), 2))
		}
		begun, done := 0, 0
		before := time.Now()
		sum, err := drain(t, dirOf(runs...), c, upload.DrainOptions{Concurrency: 3, Jitter: time.Hour, Begin: func(runs int) { begun = runs }, Done: func(string, error) { done++ }})
		if err != nil || sum.Delivered != 30 || c.peak != 3 {
			t.Errorf("%+v, %v, peak %d", sum, err, c.peak)
		}
		if sum.ElapsedSecs != 30 || time.Since(before) > time.Hour+30*time.Second {
			t.Errorf("%v s of work, %v with the jitter", sum.ElapsedSecs, time.Since(before))
		}
		if begun != 30 || done != 30 {
			t.Errorf("%d begun, %d done", begun, done)
		}
	})
}

func TestDamagedRunsDoNotStopTheOthers(t *testing.T) {
	bad, changed := newRun(1, 9), newRun(2, 9)
	bad.readErr = errors.New("database disk image is malformed")
	changed.reg, changed.known = rt.Registration{Endpoint: "http://fake", Dialect: upload.DialectSpec, RemoteID: "rx", UploadURIPrefix: "s3://b/p"}, true
	changed.batches = []rt.Batch{{Number: 1, FirstSeq: 2, LastSeq: 9, Rows: 9, SHA256: "x", Key: "s3://b/p/rx/000001.csv.gz"}}
	c := &fakeClient{known: []string{"rx"}}
	sum, err := drain(t, dirOf(bad, changed, newRun(3, 9)), c, upload.DrainOptions{})
	if !errors.Is(err, upload.ErrDamaged) || sum.Damaged != 2 || sum.Delivered != 1 || len(c.finished) != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestOtherBytesOfTheSameRowsAreSealedAnew(t *testing.T) {
	r := newRun(1, 9)
	r.reg, r.known = rt.Registration{Endpoint: "http://fake", Dialect: upload.DialectSpec, RemoteID: "rx", UploadURIPrefix: "s3://b/p"}, true
	r.batches = []rt.Batch{{Number: 1, FirstSeq: 2, LastSeq: 9, Rows: 8, SHA256: "x", Key: "s3://b/p/rx/000001.csv.gz"}}
	sum, err := drain(t, dirOf(r), &fakeClient{known: []string{"rx"}}, upload.DrainOptions{})
	if err != nil || sum.Delivered != 1 || r.batches[0].SHA256 == "x" || len(r.events) != 1 || r.events[0].Status != "resealed" {
		t.Errorf("%+v, %v, %+v, %+v", sum, err, r.batches, r.events)
	}
}

func TestARunThatTheReceiverForgotOrThatMovedStartsAgain(t *testing.T) {
	for _, endpoint := range []string{"http://fake", "http://elsewhere"} {
		r, c := newRun(1, 9), &fakeClient{}
		r.reg, r.known = rt.Registration{Endpoint: endpoint, Dialect: upload.DialectSpec, RemoteID: "old", UploadURIPrefix: "s3://b/p"}, true
		r.batches = []rt.Batch{{Number: 1, FirstSeq: 2, LastSeq: 4, Rows: 3, SHA256: "x", Key: "s3://b/p/old/000001.csv.gz", UploadedAt: start}}
		sum, err := drain(t, dirOf(r), c, upload.DrainOptions{})
		if err != nil || sum.Delivered != 1 || sum.Rows != 8 || !slices.Equal(c.finished["r1"].URIs, []string{"s3://b/p/r1/000001.csv.gz", "s3://b/p/r1/000002.csv.gz"}) {
			t.Errorf("%s: %+v, %v, %+v", endpoint, sum, err, c.finished)
		}
		if i := slices.IndexFunc(r.events, func(e rt.Event) bool { return strings.Contains(e.Detail, "old") }); i < 0 {
			t.Errorf("%s: the old id is not in the ledger: %+v", endpoint, r.events)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tc := range []struct {
		code, signal rt.Opt[int64]
		outcome      rt.Outcome
		want         string
	}{
		{rt.Some[int64](0), rt.Some[int64](0), rt.OutcomeUnknown, "finished"},
		{rt.Some[int64](7), rt.Some[int64](0), rt.OutcomeFailed, "failed"},
		{rt.Some[int64](0), rt.Some[int64](15), rt.OutcomeCancelled, "finished"},
		{rt.Some[int64](0), rt.Some[int64](0), rt.OutcomeTerminated, "finished"},
		{rt.None[int64](), rt.Some[int64](9), rt.OutcomeFailed, "failed"},
		{rt.None[int64](), rt.Some[int64](15), rt.OutcomeTimeout, "failed"},
		{rt.None[int64](), rt.None[int64](), rt.OutcomeLost, "failed"},
		{rt.Some[int64](0), rt.Some[int64](0), rt.OutcomeOOM, "failed"},
		{rt.None[int64](), rt.None[int64](), rt.OutcomeNone, "finished"},
	} {
		run := rt.Run{Ending: rt.Ending{ExitCode: tc.code, ExitSignal: tc.signal, Outcome: tc.outcome}}
		if got := upload.Status(&run); got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}
