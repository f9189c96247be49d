package upload_test

import (
	"context"
	"testing"

	"github.com/resource-tracker/rt/upload"
)

// liveDir shows its one run as tracked.
type liveDir struct{ *fakeDir }

func (d liveDir) Runs(ctx context.Context) ([]upload.Entry, error) {
	list, err := d.fakeDir.Runs(ctx)
	for i := range list {
		list[i].Live = true
	}
	return list, err
}

// TestLiveRuns: a tracked run is left alone, or uploaded up to its last row and not finished. Later
// rows follow the sent rows.
func TestLiveRuns(t *testing.T) {
	whole := newRun(1, 30)
	run := &fakeRun{run: whole.run, snaps: whole.snaps[:15]}
	dir, c := dirOf(run), &fakeClient{}
	drain := func(d upload.Directory, live bool) upload.Summary {
		t.Helper()
		s, err := upload.Drain(t.Context(), d, c, c, upload.DrainOptions{Live: live})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := drain(liveDir{dir}, false); s.Live != 1 || s.LiveSent != 0 || c.registered != 0 {
		t.Errorf("left alone: %+v, %d registered", s, c.registered)
	}
	for _, n := range []int{15, 20, 20} {
		run.snaps = whole.snaps[:n]
		if s := drain(liveDir{dir}, true); s.Live != 1 || s.LiveSent != 1 || s.Delivered != 0 {
			t.Errorf("%d snapshots: %+v", n, s)
		}
	}
	if run.delivered || len(c.finished) != 0 || len(c.objects) != 2 {
		t.Errorf("delivered %v, %d finishes, %d objects", run.delivered, len(c.finished), len(c.objects))
	}
	run.snaps = whole.snaps
	if s := drain(dir, true); s.Delivered != 1 || s.Rows != int64(len(whole.snaps)-20) || c.registered != 1 || len(c.objects) != 3 || !run.delivered {
		t.Errorf("its end: %+v, %d registered, %d objects", s, c.registered, len(c.objects))
	}
}

// wantedDir shows its one run as tracked, and wanted.
type wantedDir struct{ liveDir }

func (d wantedDir) Runs(ctx context.Context) ([]upload.Entry, error) {
	list, err := d.liveDir.Runs(ctx)
	for i := range list {
		list[i].Wanted = true
	}
	return list, err
}

// TestWantedRuns: of a tracked run that the receiver wants it gets the record so far, and no file of rows. At the end
// all rows follow, once. A receiver without records gets nothing.
func TestWantedRuns(t *testing.T) {
	for _, takes := range []bool{true, false} {
		whole := newRun(1, 30)
		run := &fakeRun{run: whole.run, snaps: whole.snaps[:15]}
		dir, c := dirOf(run), &fakeClient{takes: takes}
		drain := func(d upload.Directory) upload.Summary {
			t.Helper()
			s, err := upload.Drain(t.Context(), d, c, c, upload.DrainOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		records := 0
		if takes {
			records = 1
		}
		for _, n := range []int{15, 15, 20} {
			run.snaps = whole.snaps[:n]
			s := drain(wantedDir{liveDir{dir}})
			if s.Live != 1 || s.LiveSent != 1 || s.Rows != 0 || len(c.objects) != records {
				t.Errorf("%d snapshots: %+v, %d objects", n, s, len(c.objects))
			}
		}
		if c.registered != 1 || c.calls["record"] != 2*records || run.delivered {
			t.Errorf("%d registered, %v, delivered %v", c.registered, c.calls, run.delivered)
		}
		run.snaps = whole.snaps
		if s := drain(dir); s.Delivered != 1 || s.Rows != int64(len(whole.snaps)-1) || c.registered != 1 || !run.delivered {
			t.Errorf("its end: %+v, %d registered", s, c.registered)
		}
	}
}
