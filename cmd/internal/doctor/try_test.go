package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// tried writes the run of job 12, as a tracker leaves it after the number of readings; without an outcome it goes on.
func (m *machine) tried(outcome rt.Outcome, readings int) {
	m.t.Helper()
	start := time.Now().Add(-3 * time.Second)
	run := rt.Run{}
	run.JobID, run.Node, run.BootID, run.Start, run.State = rt.Some(uint64(12)), "n1", "boot", start, rt.StateRunning
	w, err := spool.Create(m.path("/var/spool/rt"), run, rt.Host{}, spool.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range readings {
		s := rt.Snapshot{Seq: int64(i) + 1, Wall: start.UnixNano() + int64(i)*1e9, Boot: 500e9 + int64(i)*1e9}
		switch i {
		case 0:
			s.Reason, s.Job.Phase = rt.ReasonFirst, rt.JobPending
		default:
			s.Reason = rt.ReasonLast
			s.Job = rt.JobReading{Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(1_000_000)), MemCurrent: rt.Some[uint64](1 << 20), MemPeak: rt.Some[uint64](2 << 20)}
		}
		if err := w.Put(&s); err != nil {
			m.t.Fatal(err)
		}
	}
	if outcome != rt.OutcomeNone {
		run.State, run.Outcome, run.End = rt.StateEnded, outcome, time.Now()
		if err := w.End(run); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// newTried returns a machine on which srun runs job 12, which is tracked.
func newTried(t *testing.T) *machine {
	m := newMachine(t)
	m.commands["srun"] = "12\n"
	return m
}

var tryConditions = []condition{
	{"try.job", Failure, "exit status 127", func(m *machine) { delete(m.commands, "srun") }},
	{"try.job", Failure, "invalid syntax", func(m *machine) { m.commands["srun"] = "prolog of the site\n12\n" }},
	{"try.run", Failure, "the job has no file", func(*machine) {}},
	{"try.run", Failure, "has not ended", func(m *machine) { m.tried(rt.OutcomeNone, 1) }},
	{"try.run", Failure, "not a spool file", func(m *machine) { m.write("/var/spool/rt/job-12-n1-1.db", "text", 0o600) }},
	{"try.report", Failure, `outcome is "lost"`, func(m *machine) { m.tried(rt.OutcomeLost, 2) }},
	{"try.report", Warning, "lacks CPU time, peak memory, the first or the last reading", func(m *machine) { m.tried(rt.OutcomeFinished, 1) }},
	{"slurm.node", Failure, "no node", func(m *machine) { m.commands["sinfo"] = "" }},
}

func TestTry(t *testing.T) {
	for _, outcome := range []rt.Outcome{rt.OutcomeFinished, rt.OutcomeUnknown} { // Slurm 22.05 has no exit code of an srun
		m := newTried(t)
		m.tried(outcome, 2)
		checks := m.Try(t.Context())
		if len(checks) != 3 || Worst(checks) != OK {
			t.Errorf("a job with the outcome %s:\n%s", outcome, printed(t, checks))
		}
	}
	checkWith(t, (*machine).try, newTried, tryConditions)
}

func (m *machine) try(ctx context.Context) []Check { return m.Try(ctx) }

// TestTryWaits: the Epilog may end after srun.
func TestTryWaits(t *testing.T) {
	m := newTried(t)
	m.Wait = func(context.Context, time.Duration) bool {
		m.tried(rt.OutcomeFinished, 2)
		return true
	}
	if checks := m.Try(t.Context()); Worst(checks) != OK {
		t.Errorf("a run that ends after srun:\n%s", printed(t, checks))
	}
}

// TestTryEnds: a run without a file is missing sooner than one that has not ended.
func TestTryEnds(t *testing.T) {
	for _, c := range []struct {
		readings int
		limit    time.Duration
		found    string
	}{{0, fileWait, "the job has no file"}, {1, tryWait, "has not ended"}} {
		m := newTried(t)
		if c.readings > 0 {
			m.tried(rt.OutcomeNone, c.readings)
		}
		now := time.Now()
		began := now
		m.Now = func() time.Time { return now }
		m.Wait = func(_ context.Context, d time.Duration) bool {
			now = now.Add(d)
			return true
		}
		checks := m.Try(t.Context())
		if took := now.Sub(began); took != c.limit || !strings.Contains(printed(t, checks), c.found) {
			t.Errorf("%d readings: %v, not %v:\n%s", c.readings, took, c.limit, printed(t, checks))
		}
	}
}

// TestTrySrun: the job goes to this node, and to no other. It does not stay in the queue.
func TestTrySrun(t *testing.T) {
	m := newTried(t)
	var argv []string
	m.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "srun" {
			argv = args
		}
		return m.command(ctx, name, args...)
	}
	m.Try(t.Context())
	if !slices.Contains(argv, "--nodelist=n1") || !slices.Contains(argv, "--immediate=90") || !strings.Contains(strings.Join(argv, " "), "SLURM_JOB_ID") {
		t.Errorf("srun %q", argv)
	}
}
