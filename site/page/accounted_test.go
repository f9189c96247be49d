package page

import (
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

func cellText(key string, job site.JobRow) string {
	return jobList.column(key).cell(&Pages{}, &job).Text
}

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
		run := site.StoredRun{Record: record, Finish: &site.Finish{Summary: []byte(tt.summary)}}
		said := summaryOf(run)
		job := site.JobRow{
			JobID: 7, State: rt.StateEnded, Outcome: rt.OutcomeCancelled, Start: start, End: end, SlurmState: said.SlurmState, SuspendedSecs: said.SuspendedSecs,
		}
		if outcome, elapsed := cellText("outcome", job), cellText("elapsed", job); outcome != tt.outcome || elapsed != tt.elapsed {
			t.Errorf("%s: the job has %q, %s", tt.summary, outcome, elapsed)
		}
		if row := runRowOf(run); row.Outcome != tt.outcome || row.Elapsed != tt.elapsed {
			t.Errorf("%s: the run has %q, %s", tt.summary, row.Outcome, row.Elapsed)
		}
	}
}

// The marks of the figures of a job, and of the sums of jobs, are in the tables.
func TestRowsHaveMarks(t *testing.T) {
	f := report.Balance{
		CoreSecs: rt.Some(7200.0), CoreSecsUsed: rt.Some(3600.0), CoreMark: report.AtLeast,
		MemorySecs: rt.Some(4.0 * 3600 * (1 << 30)), MemorySecsUsed: rt.Some(1.0 * 3600 * (1 << 30)), MemoryMark: report.AtLeast,
	}
	job := site.JobRow{JobID: 7, Balance: f, Waste: rt.Some[int64](3600)}
	for key, want := range map[string]string{"cpu": ">=50 %", "memory": ">=25 %", "waste": "<=1.00", "gpu": dash} {
		if got := cellText(key, job); got != want {
			t.Errorf("a job has the %s %s: want %s", key, got, want)
		}
	}
	total, p := site.Total{Jobs: 1, Known: 1, Sum: report.Sum{Balance: f, WasteSecs: rt.Some(3600.0)}}, newFake(t).pages()
	for key, want := range map[string][2]string{"cpu": {">=50 %", ">=1.00 of 2.00"}, "memory": {">=25 %", ">=1.00 of 4.00"}, "waste": {"<=1.00", ""}, "gpu": {dash, ""}} {
		if got := weekList.column(key).cell(p, &total); got.Text != want[0] || got.Of != want[1] {
			t.Errorf("a total has the %s %s, %s: want %s", key, got.Text, got.Of, want)
		}
	}
}

// A figure that is a bound says so in words. A table of a phone and of a screen has the same text.
func TestBoundsAreExplained(t *testing.T) {
	f := report.Balance{CoreSecs: rt.Some(7200.0), CoreSecsUsed: rt.Some(3600.0), CoreMark: report.AtLeast}
	list := []site.JobRow{{JobID: 7, Balance: f, Waste: rt.Some[int64](3600)}}
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, "table", (&Pages{}).tableOfJobs(list, jobList.shown("", list), nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<span title="at least: not all of it was read">&gt;=50 %</span>`, `<span title="at most: a part of it may not belong here">&lt;=1.00</span>`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %s: %s", want, b.String())
		}
	}
}

// The list of jobs does not ask for the runs of each job: what it shows is in the rows.
func TestJobsAreOneQuery(t *testing.T) {
	f := newFake(t)
	f.query(t, "ALTER TABLE run RENAME TO hidden")
	_, body, log := f.get(t, "/jobs")
	if !strings.Contains(body, "Train") || !strings.Contains(body, "12_3") || log != "" {
		t.Errorf("%s: %s", log, body)
	}
}
