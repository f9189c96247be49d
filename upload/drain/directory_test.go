package drain

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/spool"
)

// A job that was requeued: the first attempt's tracker was killed, and what the
// Epilog of the second has left is not about the first.
func TestReapTakesTheExitOfItsOwnRun(t *testing.T) {
	boot, err := host.BootID("/proc")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var paths []string
	for attempt := range uint64(2) {
		run := rt.Run{
			Identity: rt.Identity{
				JobID: rt.Some[uint64](12), Node: "n1", Attempt: attempt, BootID: boot,
				Start: start.Add(time.Duration(attempt) * time.Hour),
			},
			Ending: rt.Ending{State: rt.StateRunning},
		}
		w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := rt.Snapshot{Reason: rt.ReasonFirst, Wall: run.Start.UnixNano(), Boot: 1}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil { // as the death of the process does
			t.Fatal(err)
		}
		paths = append(paths, w.Path())
	}
	exit := filepath.Join(dir, "12@n1.exit")
	text := fmt.Sprintf(`{"exit_code":7,"exit_signal":0,"derived_exit":null,"time":"2026-03-01T14:00:00Z","run_id":"job-12-n1-%d"}`,
		start.Add(time.Hour).UnixMilli())
	if err := os.WriteFile(exit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := locked{Directory: &Directory{Dir: dir, StateDir: dir, Access: ownerOnly}}
	for attempt, want := range []rt.Opt[int64]{rt.None[int64](), rt.Some[int64](7)} {
		if _, err := d.closeLost(paths[attempt]); err != nil {
			t.Fatal(err)
		}
		r, err := spool.Open(paths[attempt])
		if err != nil {
			t.Fatal(err)
		}
		if run := r.Run(); run.State != rt.StateEnded || run.Outcome != rt.OutcomeLost || run.ExitCode != want {
			t.Errorf("attempt %d: %s, %s, exit %v, want %v", attempt, run.State, run.Outcome, run.ExitCode, want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if run, err := d.closeLost(paths[attempt]); err != nil || run.State != rt.StateEnded || d.lost != attempt+1 {
			t.Errorf("again: %s, %d lost, %v", run.State, d.lost, err)
		}
		if _, err := os.Stat(exit); os.IsNotExist(err) != (attempt == 1) {
			t.Errorf("after attempt %d the exit: %v", attempt, err)
		}
	}
}
