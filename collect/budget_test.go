package collect

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// skippingJob is a job with steps that can be skipped.
type skippingJob struct {
	*fakeJob
	shed bool
}

func (j *skippingJob) SkipSteps(on bool) { j.shed = on }

// costs is a tracker in which each part costs something.
type costs struct {
	used              time.Duration
	base, procs, node time.Duration // of each reading
	job               *skippingJob
	steps             time.Duration
	until             time.Time // procs cost something; zero: always
}

func (c *costs) options(k *keeper, interval time.Duration) Options {
	c.job = &skippingJob{fakeJob: newJob()}
	c.job.set(rt.JobPresent, usage(1), usage(1))
	return Options{
		Interval: interval, Budget: 0.005, Drop: []string{"job processes", StepsName},
		Used: func() time.Duration { return c.used },
		Job:  c.job, Sinks: []Sink{k}, Ledger: k,
		Node: []Source{source{"node", func(*rt.Snapshot) error {
			c.used += c.base + c.node
			if !c.job.shed {
				c.used += c.steps
			}
			return nil
		}}},
		Sources: []Source{source{"job processes", func(s *rt.Snapshot) error {
			if c.until.IsZero() || time.Now().Before(c.until) {
				c.used += c.procs
			}
			s.Procs = append(s.Procs, rt.ProcessReading{PID: 1})
			return nil
		}}},
	}
}

// budgetEvents are what the ledger says of the budget, without its figures.
func budgetEvents(k *keeper) (out []string) {
	for _, e := range k.events {
		if e.Name == "budget" {
			_, what, _ := strings.Cut(e.Detail, " on ")
			out = append(out, e.Status+": "+what)
		}
	}
	return out
}

func TestBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{base: 400 * time.Microsecond}
		record(t, c.options(k, time.Second), nil, func() { time.Sleep(time.Hour) })
		if len(k.rows) != 3602 || len(budgetEvents(k)) != 0 {
			t.Errorf("%d rows, events %q", len(k.rows), budgetEvents(k))
		}
	})
}

// Processes go first, then the steps, then readings.
func TestBudgetIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{base: 15 * time.Millisecond, procs: 5 * time.Millisecond, steps: time.Millisecond}
		record(t, c.options(k, time.Second), nil, func() { time.Sleep(time.Hour) })
		want := []string{
			"over: without job processes",
			"over: without steps",
			"over: 2 times the time between readings",
			"over: 4 times the time between readings",
		}
		if d := cmp.Diff(want, budgetEvents(k)); d != "" {
			t.Errorf("decisions (-want +got):\n%s", d)
		}
		if share := c.used.Seconds() / 3600; share > 0.0055 {
			t.Errorf("%.4f of a core was used", share)
		}
		if n := len(k.rows); n < 3600/4 || n > 3600/4+100 {
			t.Errorf("%d rows", n)
		}
		for i, row := range k.rows {
			if at := row.Boot - k.rows[0].Boot; at > int64(10*time.Minute) && (len(row.Procs) > 0) != (row.Reason == rt.ReasonStop) {
				t.Fatalf("row %d, %v, has %d processes", i, row.Reason, len(row.Procs))
			}
		}
		var expected, left int
		for _, e := range k.events {
			if e.Name == "cost" {
				if _, err := fmt.Sscanf(e.Detail, "snapshots=%d expected=%d missed=0 left_out=%d", new(int), &expected, &left); err != nil {
					t.Errorf("%s: %v", e.Detail, err)
				}
			}
		}
		if expected < 3600 || expected > 3610 || left != expected-len(k.rows) {
			t.Errorf("%d readings were expected and %d left out, of %d taken", expected, left, len(k.rows))
		}
	})
}

// After an expensive time everything is read again. If the cost is low only while sources
// are skipped, reading them again is tried seldom.
func TestBudgetRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{base: time.Millisecond, procs: 200 * time.Millisecond}
		c.until = time.Now().Add(30 * time.Minute)
		record(t, c.options(k, 10*time.Second), nil, func() { time.Sleep(210 * time.Minute) })
		events := budgetEvents(k)
		if n := len(events); n < 6 || n > 14 || events[n-1] != "ok: no longer without job processes" {
			t.Errorf("decisions: %q", events)
		}
		if last := k.rows[len(k.rows)-2]; len(last.Procs) != 1 {
			t.Error("the processes are not read again")
		}
	})
}

// If the allowance of a minute is used in ten seconds, the level rises at once.
func TestBudgetInHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{procs: 100 * time.Millisecond}
		record(t, c.options(k, time.Second), nil, func() { time.Sleep(30 * time.Second) })
		if d := cmp.Diff([]string{"over: without job processes"}, budgetEvents(k)); d != "" {
			t.Errorf("decisions (-want +got):\n%s", d)
		}
		if n := c.used / c.procs; n > 8 {
			t.Errorf("%d expensive readings", n)
		}
	})
}

// Without a bound, and without steps that could be left out.
func TestBudgetOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{procs: time.Second}
		o := c.options(k, time.Second)
		o.Budget, o.Job = 0, c.job.fakeJob
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"job processes"}, r.budget.drop); d != "" {
			t.Errorf("what can be left out (-want +got):\n%s", d)
		}
		record(t, o, nil, func() { time.Sleep(10 * time.Minute) })
		if len(budgetEvents(k)) != 0 {
			t.Errorf("decisions: %q", budgetEvents(k))
		}
	})
}

func TestSensorsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, c := &keeper{}, &costs{}
		record(t, c.options(k, time.Second), nil, func() { time.Sleep(time.Second) })
		for _, e := range k.events {
			if e.Name == "sensors" {
				if e.Detail != "cgroup ok, node ok, job processes ok" {
					t.Errorf("%+v", e)
				}
				return
			}
		}
		t.Errorf("not recorded: %+v", k.events)
	})
}
