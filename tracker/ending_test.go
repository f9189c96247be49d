package tracker

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

func TestAbsentFor(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		limit time.Time
		want  time.Duration
	}{
		"unknown":  {time.Time{}, 24 * time.Hour},
		"known":    {now.Add(time.Hour), time.Hour + time.Minute},
		"has been": {now.Add(-time.Hour), time.Minute},
	} {
		if got := AbsentFor(now, tt.limit, time.Minute); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// The wall clock was set back by an hour before the end of the run: the run ends at its last
// snapshot, after its start.
func TestRunEndsAtItsLastSnapshot(t *testing.T) {
	start := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	run := rt.Run{Identity: rt.Identity{Node: "n1", Start: start}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(t.TempDir(), run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		if err := w.Put(&rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*10e9, Boot: 1e12 + i*10e9}); err != nil {
			t.Fatal(err)
		}
	}
	exit := rt.Exit{Outcome: rt.OutcomeFinished, Source: "exit", Time: start.Add(20*time.Second - time.Hour)}
	ended := func() rt.Run { return Ended(run, exit, environ.Evidence{}) }
	if err := EndRun(w, ended, Retry{}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := r.Run(); !got.End.Equal(start.Add(20*time.Second)) || got.Outcome != rt.OutcomeFinished {
		t.Errorf("started at %s, ended at %s: %s", start, got.End, got.Outcome)
	}
}
