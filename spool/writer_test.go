package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// seen is how many snapshots another process would find now.
func seen(t *testing.T, path string) int64 {
	t.Helper()
	r := mustOpen(t, path)
	n, err := r.Count()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWhenSnapshotsAreCommitted(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 4, CommitInterval: 10 * time.Second})
	s := rt.Snapshot{}
	for _, step := range []struct {
		what   string
		reason rt.Reason
		after  time.Duration
		want   int64
	}{
		{"the first one", rt.ReasonTick, 0, 1},
		{"one of four", rt.ReasonTick, time.Second, 1},
		{"two of four", rt.ReasonTick, time.Second, 1},
		{"three of four", rt.ReasonTick, time.Second, 1},
		{"four of four", rt.ReasonTick, time.Second, 5},
		{"a young one", rt.ReasonTick, time.Second, 5},
		{"10 s later", rt.ReasonTick, 10 * time.Second, 7},
		{"a young one again", rt.ReasonTick, time.Second, 7},
		{"the cgroup appeared", rt.ReasonAppeared, time.Second, 9},
		{"the last one", rt.ReasonLast, time.Second, 10},
		{"stopped", rt.ReasonStop, time.Second, 11},
	} {
		s.Boot += int64(step.after)
		s.Reason = step.reason
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
		if got := seen(t, w.Path()); got != step.want {
			t.Errorf("after %s: %d snapshots are committed, want %d", step.what, got, step.want)
		}
	}
	s.Reason = rt.ReasonTick
	if err := w.Put(&s); err != nil {
		t.Fatal(err)
	}
	w.Event(rt.Event{Kind: "sensor"})
	if got := seen(t, w.Path()); got != 11 {
		t.Errorf("an event of a sensor committed: %d", got)
	}
	w.Event(rt.Event{Kind: "job"})
	if got := seen(t, w.Path()); got != 12 {
		t.Errorf("an event of the job did not commit: %d", got)
	}
}

func TestEndLeavesOnePlainFile(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(2, 0)
	for range 25 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(w.Path())
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", st.Mode(), err)
	}
	late := testRun()
	late.Meta.JobName = "train"
	if err := w.UpdateRun(late); err != nil {
		t.Fatal(err)
	}
	if r := mustOpen(t, w.Path()); r.Run().Meta.JobName != "train" || r.Run().State != rt.StateRunning {
		t.Errorf("late metadata: %+v", r.Run())
	} else if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	late.ExitCode, late.Outcome = rt.Some[int64](7), rt.OutcomeFailed
	if err := w.End(late); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, w.Path())
	data, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	if data[18] != 1 || data[19] != 1 { // the file format's versions: 2 is WAL
		t.Errorf("the file is not in rollback mode: %d %d", data[18], data[19])
	}
	r := mustOpen(t, w.Path())
	if run := r.Run(); run.State != rt.StateEnded || run.ExitCode != late.ExitCode || run.Meta.JobName != "train" {
		t.Errorf("the run: %+v", run)
	}
	if err := w.Put(m.next()); !errors.Is(err, ErrClosed) {
		t.Errorf("Put after End: %v", err)
	}
	if err := w.End(late); !errors.Is(err, ErrClosed) {
		t.Errorf("End after End: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("Close after End: %v", err)
	}
}

// A reader that has the file open while the tracker ends must not cost anything:
// the next one who opens it folds it.
func TestEndWhileSomebodyReads(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(2, 0)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil || s.Seq != 1 {
			t.Fatalf("%v, %v", s, err)
		}
		if err := w.End(testRun()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Delivery().MarkDelivered(start); err != nil {
		t.Fatalf("the reader did not see that the run has ended: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = mustOpen(t, w.Path())
	if r.Run().State != rt.StateDelivered {
		t.Errorf("state %q", r.Run().State)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	onlyFile(t, w.Path())
}

func TestOneRunOneWriter(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, testRun(), rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, testRun(), rt.Host{}, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("a second writer next to the first: %v", err)
	}
	if alive, err := Live(w.Path()); !alive || err != nil {
		t.Errorf("the refused writer ended the first one's lock: %v %v", alive, err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, testRun(), rt.Host{}, Options{}); !errors.Is(err, ErrExists) {
		t.Errorf("a second writer after the first: %v", err)
	}
	onlyFile(t, w.Path())
}

func TestCreateSaysWhatIsWrong(t *testing.T) {
	_, err := Create(filepath.Join(t.TempDir(), "missing"), testRun(), rt.Host{}, Options{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a directory that is not there: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file, testRun(), rt.Host{}, Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as directory: %v", err)
	}
	for magic, refused := range map[uint32]bool{0x6969: true, 0x47504653: true, 0xff534d42: true, 0xef53: false, 0x01021994: false, 0x65735546: false} {
		err := refuseNetworkFS("/d", magic)
		if errors.Is(err, ErrNetworkFS) != refused {
			t.Errorf("magic %#x: %v", magic, err)
		}
	}
}

func TestPutAndEventFromSeveralGoroutines(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 5})
	var wg sync.WaitGroup
	wg.Go(func() {
		m := newMachine(2, 1)
		for range 300 {
			if err := w.Put(m.next()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for i := range 60 {
			w.Event(rt.Event{Time: start, Kind: []string{"job", "sensor"}[i%2]})
		}
	})
	wg.Go(func() {
		run := testRun()
		for range 30 {
			run.Attempt++
			if err := w.UpdateRun(run); err != nil {
				t.Error(err)
			}
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	n, err := r.Count()
	events, err2 := r.Events()
	if n != 300 || len(events) != 60 || err != nil || err2 != nil {
		t.Errorf("%d snapshots, %d events, %v, %v", n, len(events), err, err2)
	}
}

// What is handed to Put may be changed right after.
func TestPutKeepsNoReference(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(2, 1)
	want := clone(m.next())
	if err := w.Put(&m.snap); err != nil {
		t.Fatal(err)
	}
	want2 := clone(m.next())
	if err := w.Put(&m.snap); err != nil {
		t.Fatal(err)
	}
	m.snap.GPUs[0].Detail["driver"] = "changed"
	m.snap.Nets[0].RxBytes.Set(1)
	m.snap.CPUs[0].Times.User = 1
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	got := collect(t, mustOpen(t, w.Path()), 1, 0)
	if got[0].GPUs[0].Detail["driver"] != "550" || got[1].GPUs[0].Detail["driver"] != "550" ||
		got[1].Nets[0].RxBytes != want2.Nets[0].RxBytes || got[1].CPUs[0] != want2.CPUs[0] || got[0].CPUs[0] != want.CPUs[0] {
		t.Errorf("what was put has changed: %+v", got[1])
	}
}

// An event without a time gets the time of the run, which does not follow the system clock.
func TestAnEventHasTheTimeOfTheRun(t *testing.T) {
	w := mustCreate(t, Options{})
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-24 * time.Hour) // the clock was set forward by a day
	if err := w.Put(&rt.Snapshot{Wall: began.UnixNano(), Boot: boot.Nano()}); err != nil {
		t.Fatal(err)
	}
	given := time.Unix(1700000000, 0)
	w.Event(rt.Event{Kind: "job", Name: "gpu"})
	w.Event(rt.Event{Time: given, Kind: "job", Name: "tasks"})
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil || len(events) != 2 || !events[1].Time.Equal(given) {
		t.Fatalf("%+v, %v", events, err)
	}
	if at := events[0].Time; at.Before(began.Truncate(time.Microsecond)) || at.After(began.Add(12*time.Hour)) {
		t.Errorf("an event %s after the snapshot", at.Sub(began))
	}
}
