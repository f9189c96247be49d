package page

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// A row of a job and of a run has Slurm's own state, and no time in which the job was suspended. A summary is a client's:
// it has no effect beyond that.
func TestRowsHaveWhatAccountingSays(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := start.Add(30 * time.Minute)
	for _, tt := range []struct{ summary, outcome, elapsed string }{
		{`{}`, "cancelled", "0:30:00"},
		{`{"slurm_state": "PREEMPTED", "suspended_secs": 1200}`, "cancelled (PREEMPTED)", "0:10:00"},
		{`{"slurm_state": "CANCELLED by root", "suspended_secs": null}`, "cancelled by root", "0:30:00"},
		{`{"slurm_state": "X\u001b[0m", "suspended_secs": 1e9}`, "cancelled (X?[0m)", "0:30:00"},
		{`{"suspended_secs": -1e300}`, "cancelled", "0:30:00"},
		{`[`, "cancelled", "0:30:00"},
	} {
		record := &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](7), Start: start}, Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeCancelled, End: end}}
		run := site.Run{Record: record, Finish: &site.Finish{Summary: []byte(tt.summary)}}
		row := rowOf(site.Job{JobID: 7, State: rt.StateEnded, Outcome: rt.OutcomeCancelled, Start: start, End: end}, []site.Run{run})
		if row.Outcome != tt.outcome || row.Elapsed != tt.elapsed {
			t.Errorf("%s: the job has %q, %s", tt.summary, row.Outcome, row.Elapsed)
		}
		if row := runRowOf(run); row.Outcome != tt.outcome || row.Elapsed != tt.elapsed {
			t.Errorf("%s: the run has %q, %s", tt.summary, row.Outcome, row.Elapsed)
		}
		again := rowOf(site.Job{JobID: 7, State: rt.StateEnded, Outcome: rt.OutcomeFinished, Start: start, End: end}, []site.Run{run})
		if again.Outcome != "finished" {
			t.Errorf("%s: a later attempt finished, the job has %q", tt.summary, again.Outcome)
		}
	}
}
