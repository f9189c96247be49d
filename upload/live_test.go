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
