package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func batch(number int, first, last int64) rt.Batch {
	return rt.Batch{Number: number, FirstSeq: first, LastSeq: last, Rows: int(last - first + 1), Bytes: 9,
		SHA256: strings.Repeat("a", 64), Key: "s3://b/1", SealedAt: start}
}

func TestBatchesFollowOneAnother(t *testing.T) {
	m := newMachine(1, 0)
	var list []*rt.Snapshot
	for range 30 {
		list = append(list, clone(m.next()))
	}
	r := stored(t, Options{}, list)
	for _, step := range []struct {
		what string
		b    rt.Batch
		ok   bool
	}{
		{"a second one first", batch(2, 1, 10), false},
		{"one that begins at 3", batch(1, 3, 10), false},
		{"the first, of intervals", batch(1, 2, 10), true},
		{"the same again", batch(1, 2, 10), true},
		{"the same with more rows", batch(1, 2, 11), false},
		{"one that overlaps", batch(2, 10, 20), false},
		{"one after a gap", batch(2, 12, 20), false},
		{"one that is empty", batch(2, 11, 10), false},
		{"one beyond the end", batch(2, 11, 31), false},
		{"the second", batch(2, 11, 30), true},
		{"number 0", batch(0, 2, 10), false},
	} {
		err := r.Delivery().SealBatch(step.b)
		isOther := err != nil && !errors.Is(err, ErrOutOfOrder)
		if isOther || (err == nil) != step.ok {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	if err := r.Delivery().MarkUploaded(2, start.Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if err := r.Delivery().MarkUploaded(3, start); err == nil {
		t.Error("a batch that does not exist was marked as uploaded")
	}
	batches, err := r.Delivery().Batches()
	if err != nil || len(batches) != 2 || !batches[0].UploadedAt.IsZero() || !batches[1].UploadedAt.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v, %v", batches, err)
	}
	if problems := r.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify: %v", problems)
	}
}

func TestDeliveryOfARun(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(1, 0)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	if alive, err := r.Live(); !alive || err != nil {
		t.Errorf("live: %v, %v", alive, err)
	}
	for what, err := range map[string]error{
		"CloseLost":     r.CloseLost(rt.Exit{}, ""),
		"UpdateRun":     r.UpdateRun(r.Run()),
		"MarkDelivered": r.Delivery().MarkDelivered(start),
		"Remove":        r.Remove(),
	} {
		if !errors.Is(err, ErrLive) {
			t.Errorf("%s next to a live tracker: %v", what, err)
		}
	}
	if _, ok, err := r.Delivery().Registration(); ok || err != nil {
		t.Errorf("a registration before the first: %v", err)
	}
	reg := rt.Registration{Endpoint: "https://a", Dialect: "spec", Scope: rt.ScopeNode, IntentAt: start, Attempts: 1}
	for range 2 {
		reg.Attempts++
		if err := r.Delivery().SaveRegistration(reg); err != nil { // while the tracker writes
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	run := testRun()
	run.State, run.QOS = rt.StateEnded, "high"
	if err := r.UpdateRun(run); err != nil {
		t.Fatal(err)
	}
	if err := r.Delivery().MarkDelivered(start.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = mustOpen(t, w.Path())
	at, err := r.Delivery().DeliveredAt()
	if r.Run().State != rt.StateDelivered || r.Run().QOS != "high" || !at.Equal(start.Add(time.Minute)) || err != nil {
		t.Errorf("after delivery: %+v at %v, %v", r.Run(), at, err)
	}
	if got, ok, err := r.Delivery().Registration(); got != reg || !ok || err != nil {
		t.Errorf("registration %+v, %v", got, err)
	}
	if err := r.Remove(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, filepath.Join(filepath.Dir(w.Path()), "nothing"))
}

func TestCloseLost(t *testing.T) {
	failed := rt.Exit{Code: rt.Some[int64](1), Outcome: rt.OutcomeFailed, Source: "sacct", Time: start.Add(time.Hour)}
	for _, c := range []struct {
		what    string
		exit    rt.Exit
		boot    string
		outcome rt.Outcome
		source  string
		detail  string
	}{
		{"nothing is known", rt.Exit{}, "boot-1", rt.OutcomeLost, "drain", "tracker died"},
		{"another boot", rt.Exit{}, "boot-2", rt.OutcomeLost, "drain", "machine was rebooted"},
		{"another machine", rt.Exit{}, "", rt.OutcomeLost, "drain", "tracker died"},
		{"sacct knows", failed, "boot-1", rt.OutcomeFailed, "sacct", "tracker died"},
	} {
		w := mustCreate(t, Options{})
		m := newMachine(1, 0)
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil { // as the death of the process does
			t.Fatal(err)
		}
		r := mustOpen(t, w.Path())
		for range 2 { // the second time nothing is left to do
			if err := r.CloseLost(c.exit, c.boot); err != nil {
				t.Fatal(err)
			}
		}
		run := r.Run()
		if run.State != rt.StateEnded || run.Outcome != c.outcome || run.OutcomeSource != c.source || run.ExitCode != c.exit.Code ||
			run.End.UnixMicro() != m.snap.Wall/1000 {
			t.Errorf("%s: %+v", c.what, run)
		}
		events, err := r.Events()
		if err != nil || len(events) != 1 || !strings.Contains(events[0].Detail, c.detail) {
			t.Errorf("%s: events %+v, %v", c.what, events, err)
		}
	}
}

// A tracker that ended well after the file was opened is not declared lost.
func TestCloseLostSeesThatTheTrackerHasEnded(t *testing.T) {
	w := mustCreate(t, Options{})
	r := mustOpen(t, w.Path())
	run := testRun()
	run.Outcome = rt.OutcomeFinished
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseLost(rt.Exit{}, ""); err != nil {
		t.Fatal(err)
	}
	if r.Run().Outcome != rt.OutcomeFinished {
		t.Errorf("outcome %q", r.Run().Outcome)
	}
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	unlock, err := LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(t.Context(), dir); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second drain: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = LockDir(t.Context(), dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(t.Context(), filepath.Join(dir, "missing")); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// A process that has inherited the lock of a run keeps the run live after the death of its tracker.
func TestLockFile(t *testing.T) {
	w := mustCreate(t, Options{})
	inherited, err := w.LockFile()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.lock.file.Close(); err != nil { // as at the death of the tracker
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if is, err := Live(w.Path()); is != want || err != nil {
			t.Errorf("live: %v, %v; want %v", is, err, want)
		}
		if err := inherited.Close(); want && err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	some := rt.Some[uint64]
	var paths []string
	for i, run := range []rt.Run{
		{Identity: rt.Identity{JobID: some(12)}},
		{Identity: rt.Identity{JobID: some(12), Step: "0"}},
		{Identity: rt.Identity{JobID: some(13), ArrayJobID: some(13), ArrayTaskID: some(1)}},
		{Identity: rt.Identity{JobID: some(14), ArrayJobID: some(13), ArrayTaskID: some(2)}},
		{Identity: rt.Identity{JobID: some(12), Attempt: 1}},
		{PID: some(99)},
		{Identity: rt.Identity{JobID: some(20), HetJobID: some(20), HetJobOffset: some(0)}},
		{Identity: rt.Identity{JobID: some(21), HetJobID: some(20), HetJobOffset: some(1)}},
	} {
		run.Node, run.State, run.Start = "n1", rt.StateRunning, start.Add(time.Duration(i)*time.Second)
		w, err := Create(dir, run, rt.Host{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		paths = append(paths, w.Path())
	}
	for job, want := range map[string][]int{
		"12": {0, 1, 4}, "12.0": {1}, "13": {2, 3}, "13_2": {3}, "14": {3}, "13_1": {2},
		"20": {6, 7}, "21": {7}, "20+0": {6}, "20+1": {7}, "20+2": nil,
		paths[5]: {5}, "15": nil, "13_3": nil, "12.7": nil, "": nil, "-": {5}, "x": nil,
	} {
		entries, err := FindJob(dir, job)
		if (len(want) == 0) != errors.Is(err, ErrNotFound) {
			t.Errorf("job %q: %v", job, err)
		}
		if len(entries) != len(want) {
			t.Errorf("job %q: %d runs, want %v", job, len(entries), want)
			continue
		}
		for i, e := range entries {
			if e.Path != paths[want[i]] || !e.Live {
				t.Errorf("job %q: number %d is %s, live %v", job, i, e.Path, e.Live)
			}
		}
	}
	if _, err := FindJob(dir, filepath.Join(dir, "missing.db")); err == nil {
		t.Error("a file that is not there was found")
	}
	if err := os.WriteFile(filepath.Join(dir, "job-77-n1-1.db"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FindJob(dir, "77"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "cannot be read (1)") {
		t.Errorf("a job whose file cannot be read: %v", err)
	}
}

// What a listing shows as unsent is what follows the last confirmed batch.
func TestListTellsWhatIsUnsent(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(1, 0)
	for range 6 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	unsent := func() int64 {
		entries, err := List(filepath.Dir(w.Path()))
		if err != nil || len(entries) != 1 || entries[0].Err != nil {
			t.Fatalf("%+v, %v", entries, err)
		}
		return entries[0].Unsent
	}
	if n := unsent(); n != 6 {
		t.Errorf("%d before the first batch", n)
	}
	r := mustOpen(t, w.Path())
	for i, b := range []rt.Batch{batch(1, 2, 4), batch(2, 5, 6)} {
		if err := r.Delivery().SealBatch(b); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := r.Delivery().MarkUploaded(1, start); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := unsent(); n != 2 {
		t.Errorf("%d after one of two batches was confirmed", n)
	}
}
