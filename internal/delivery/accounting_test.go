package delivery

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

const labJobs = "../../slurm/accounting/testdata/sacct-P-all-lab-jobs.txt"

// accounted makes a directory with a shell script as sacct.
func accounted(t *testing.T, script string) *locked {
	t.Helper()
	dir := t.TempDir()
	sacct := filepath.Join(dir, "sacct")
	if err := os.WriteFile(sacct, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &locked{Directory: &Directory{
		Dir: filepath.Join(dir, "spool"), StateDir: filepath.Join(dir, "state"), Access: ownerOnly,
		Accounting: Accounting{Sacct: sacct, Deadline: time.Hour, Wait: 30 * time.Second},
	}}
	if err := os.Mkdir(d.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.unlock(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// hangs is a script that says so and does not end.
const hangs = `echo >"$0.hangs"; exec sleep 100`

// expiring is a context whose deadline comes when the test says so.
type expiring struct {
	context.Context
	expired chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.expired }

func (e expiring) Err() error {
	select {
	case <-e.expired:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// untilItHangs returns a context whose deadline comes when the script of sacct hangs.
func (d *locked) untilItHangs(t *testing.T) context.Context {
	t.Helper()
	fifo := d.Accounting.Sacct + ".hangs"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := expiring{t.Context(), make(chan struct{})}
	go func() {
		_, err := os.ReadFile(fifo)
		if err != nil {
			t.Error(err)
		}
		close(ctx.expired)
	}()
	return ctx
}

func ownerOnly() (spool.Access, error) { return spool.Access{Owner: true}, nil }

// spoolJob makes a run of a job; without an end its tracker has died.
func (d *locked) spoolJob(t *testing.T, job uint64, start, end time.Time) (path string) {
	t.Helper()
	run := rt.Run{Identity: rt.Identity{Cluster: "lab", JobID: rt.Some(job), Node: "n1", BootID: "another", Start: start}, Allocation: rt.Allocation{Scheduler: "slurm"}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(d.Dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if end.IsZero() {
		err = w.Close()
	} else {
		run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeUnknown, Source: "epilog", Time: end})
		err = w.End(run)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w.Path()
}

func runAt(t *testing.T, path string) rt.Run {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.Run()
}

// TestAccountingCompletesRuns: what the Epilog does not know comes from sacct, in one call for
// all jobs, also those of dead trackers, and one call for what they used.
func TestAccountingCompletesRuns(t *testing.T) {
	fixture, err := filepath.Abs(labJobs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := accounting.ParseSacct(string(text), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	d := accounted(t, `echo "$@" >>"$0.calls"; cat "`+fixture+`"`)
	local := time.Local
	time.Local = time.UTC // where the fixture was captured
	t.Cleanup(func() { time.Local = local })
	paths, seen := map[string]accounting.Account{}, map[rt.Outcome]int{}
	for i, a := range accounts {
		if a.Start.IsZero() || a.Outcome == rt.OutcomeNone {
			continue
		}
		end := a.End
		if i%3 == 0 {
			end = time.Time{}
		}
		paths[d.spoolJob(t, a.JobID, a.Start, end)] = a
	}
	entries, err := d.Runs(context.Background())
	if err != nil || len(entries) != len(paths) || d.accounted.SacctError != "" {
		t.Fatalf("%d entries of %d, %v, %s", len(entries), len(paths), err, d.accounted.SacctError)
	}
	for path, a := range paths {
		run := runAt(t, path)
		seen[run.Outcome]++
		if run.Outcome != a.Outcome || run.OutcomeSource != "sacct" || run.Meta.JobName != a.JobName || run.ArrayTaskID != a.ArrayTaskID || run.User != a.User {
			t.Errorf("%s is %q by %q, named %q, task %v, of %q; sacct: %+v", path, run.Outcome, run.OutcomeSource, run.Meta.JobName, run.ArrayTaskID, run.User, a)
		}
	}
	if d.accounted.Accounted != len(paths) || d.lost == 0 || seen[rt.OutcomeCancelled] == 0 || seen[rt.OutcomeFailed] == 0 {
		t.Errorf("%d of %d completed, %d lost, outcomes %v", d.accounted.Accounted, len(paths), d.lost, seen)
	}
	calls, err := os.ReadFile(d.Accounting.Sacct + ".calls")
	if err != nil || strings.Count(string(calls), "\n") != 2 || strings.Count(string(calls), "--allocations") != 1 {
		t.Errorf("not one call and one for the steps: %q, %v", calls, err)
	}
}

// For the run of a step, sacct changes only the identity of its job, if the file has that only as a
// tag. It changes neither the outcome nor the ledger.
func TestAccountingOfAStepsArray(t *testing.T) {
	end := time.Now().Add(-time.Hour).Truncate(time.Second)
	d := accounted(t, fmt.Sprintf("echo call >>\"$0.calls\"; printf 'Cluster|JobIDRaw|JobID|State|ExitCode|Start|End|ElapsedRaw|JobName\nlab|7|5_3|FAILED|1:0|%d|%d|60|arr\n'",
		end.Add(-time.Minute).Unix(), end.Unix()))
	makeRun := func(step string, tags map[string]string) string {
		run := rt.Run{
			Identity:   rt.Identity{Cluster: "lab", JobID: rt.Some[uint64](7), Step: step, Node: "n1", BootID: "another", Start: end.Add(-50 * time.Second)},
			Allocation: rt.Allocation{Scheduler: "slurm"}, Ending: rt.Ending{State: rt.StateRunning},
		}
		slurm.Describe(&run)
		maps.Copy(run.Meta.Tags, tags)
		w, err := spool.Create(d.Dir, run, rt.Host{}, spool.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "exit", Time: end})
		if err := w.End(run); err != nil {
			t.Fatal(err)
		}
		return w.Path()
	}
	claimed, plain := makeRun("batch", map[string]string{slurm.EnvironArrayTag: "5_3"}), makeRun("0", nil)
	if _, err := d.Runs(context.Background()); err != nil || d.accounted.SacctError != "" || d.accounted.Accounted != 1 {
		t.Fatalf("%v, %+v", err, d.accounted)
	}
	run := runAt(t, claimed)
	if run.Label() != "5_3.batch" || run.Meta.ExternalRunID != "lab:5_3.batch@n1#0" || run.Meta.Tags[slurm.EnvironArrayTag] != "" {
		t.Errorf("label %q, %+v", run.Label(), run.Meta)
	}
	if code := run.ExitCode; run.Outcome != rt.OutcomeFinished || run.OutcomeSource != "exit" || code != rt.Some[int64](0) {
		t.Errorf("outcome %q by %q, exit %v", run.Outcome, run.OutcomeSource, code)
	}
	if run = runAt(t, plain); run.ArrayTaskID.Valid() || run.Meta.JobName != "" {
		t.Errorf("the run without a tag was changed: %+v", run)
	}
	r, err := spool.Open(claimed)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := r.Events()
	if isOfSacct := func(e rt.Event) bool { return e.Name == "sacct" }; err != nil || slices.ContainsFunc(events, isOfSacct) {
		t.Errorf("the ledger has %+v, %v", events, err)
	}
	if err := d.unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Runs(context.Background()); err != nil || d.accounted.Accounted != 0 {
		t.Errorf("the second drain: %v, %+v", err, d.accounted)
	}
	if calls, err := os.ReadFile(d.Accounting.Sacct + ".calls"); err != nil || strings.Count(string(calls), "\n") != 2 {
		t.Errorf("not two calls of one drain: %q, %v", calls, err)
	}
}

// TestAccountingIsNotNeeded: whatever sacct does, each run is ready for delivery, except one
// that ended just now without a record.
func TestAccountingIsNotNeeded(t *testing.T) {
	now := time.Now()
	record := func(state string) string {
		return fmt.Sprintf("printf 'Cluster|JobIDRaw|State|ExitCode|Start|End|JobName\nlab|7|%s|0:0|%d|Unknown|md\n'", state, now.Add(-time.Hour).Unix())
	}
	empty := "echo 'JobIDRaw|State'"
	tests := []struct {
		name, script string
		ended        time.Time
		waits        bool
		outcome      rt.Outcome
		says         string
	}{
		{"no record yet", empty, now, true, rt.OutcomeUnknown, ""},
		{"no record", empty, now.Add(-time.Minute), false, rt.OutcomeUnknown, ""},
		{"a clock that is ahead", empty, now.Add(time.Hour), false, rt.OutcomeUnknown, ""},
		{"still running", record("RUNNING"), now, true, rt.OutcomeUnknown, ""},
		{"no name yet", strings.Replace(record("FAILED"), "|md", "|allocation", 1), now, true, rt.OutcomeUnknown, ""},
		{"no name for long", strings.Replace(record("FAILED"), "|md", "|allocation", 1), now.Add(-time.Minute), false, rt.OutcomeFailed, ""},
		{"completing for long", record("COMPLETING"), now.Add(-time.Minute), false, rt.OutcomeUnknown, ""},
		{"ended", record("NODE_FAIL"), now, false, rt.OutcomeFailed, ""},
		{"timeout", record("TIMEOUT"), now, false, rt.OutcomeTimeout, ""},
		{"of another cluster", strings.Replace(record("TIMEOUT"), "lab|", "b|", 1), now.Add(-time.Minute), false, rt.OutcomeUnknown, ""},
		{"it fails", "echo 'sacct: error: slurmdbd: Connection refused' >&2; exit 1", now, false, rt.OutcomeUnknown, "Connection refused"},
		{"it hangs", hangs, now, false, rt.OutcomeUnknown, "did not answer within"},
		{"it leaves a child", `sleep 3 & echo >"$0.hangs"; exit 1`, now, false, rt.OutcomeUnknown, "did not answer within"},
		{"it is no sacct", "echo hello", now, false, rt.OutcomeUnknown, "no header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(tt.script, "sleep") {
				t.Skip("exec.Cmd waits a second for the child: make check does that")
			}
			d, ctx := accounted(t, tt.script), t.Context()
			if strings.Contains(tt.script, ".hangs") {
				ctx = d.untilItHangs(t)
			}
			path := d.spoolJob(t, 7, now.Add(-time.Hour), tt.ended)
			entries, err := d.Runs(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if waits := len(entries) == 0; waits != tt.waits || (d.accounted.AwaitSacct == 1) != tt.waits {
				t.Errorf("waits: %v, want %v; %+v", waits, tt.waits, d.accounted)
			}
			if run := runAt(t, path); run.Outcome != tt.outcome {
				t.Errorf("outcome %q, want %q", run.Outcome, tt.outcome)
			}
			if said := d.accounted.SacctError; (tt.says == "") != (said == "") || !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, not %q", said, tt.says)
			}
		})
	}
}

// TestAccountingOfManySteps: how jobs ended is asked without their steps, and known
// whatever becomes of the answer that has them.
func TestAccountingOfManySteps(t *testing.T) {
	start := time.Now().Add(-time.Hour)
	outcome := fmt.Sprintf("printf 'Cluster|JobIDRaw|State|Start|End|ElapsedRaw|JobName\nlab|7|TIMEOUT|%d|Unknown|60|md\n'", start.Unix())
	use := "Cluster|JobIDRaw|State|Start|TotalCPU|MaxRSS|MaxRSSNode"
	answer := fmt.Sprintf("printf '%s\nlab|7|TIMEOUT|%d|00:05||\nlab|7.0|TIMEOUT|%d|00:05|4096|n1\n'", use, start.Unix(), start.Unix())
	for _, tt := range []struct{ name, script, detail, says string }{
		{"complete", answer, "elapsed_secs=60 cpu_secs=5 max_rss_bytes=4096 max_rss_step=0 max_rss_node=n1", ""},
		{"it fails", "echo no >&2; exit 1", "elapsed_secs=60", "have used"},
		{"it hangs", hangs, "elapsed_secs=60", "did not answer within"},
		{"it says too much", "echo '" + use + "'; head -c 33554432 /dev/zero", "elapsed_secs=60", "more than 33554432 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := accounted(t, `case "$*" in *--allocations*) `+outcome+";; *) "+tt.script+";; esac")
			ctx := t.Context()
			if tt.script == hangs {
				ctx = d.untilItHangs(t)
			}
			path := d.spoolJob(t, 7, start, time.Now())
			if entries, err := d.Runs(ctx); err != nil || len(entries) != 1 {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			if run := runAt(t, path); run.Outcome != rt.OutcomeTimeout {
				t.Errorf("outcome %q", run.Outcome)
			}
			if said := d.accounted.SacctError; (tt.says == "") != (said == "") || !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, not %q", said, tt.says)
			}
			r, err := spool.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			events, err := r.Events()
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(events, func(e rt.Event) bool { return e.Name == "sacct" })
			if i < 0 || events[i].Detail != tt.detail {
				t.Errorf("the ledger has %+v, want %s", events, tt.detail)
			}
		})
	}
}

// An attempt that began in the second in which the one before it ended gets its own account.
func TestAccountOfAttempt(t *testing.T) {
	at := func(secs float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(secs * float64(time.Second)))
	}
	accounts := map[uint64][]accounting.Account{7: {
		{JobID: 7, Start: at(0), End: at(1), State: "REQUEUED"},
		{JobID: 7, Start: at(1), End: at(2), State: "COMPLETED"},
		{JobID: 7, Start: at(100), End: at(160), State: "REQUEUED"},
		{JobID: 7, Start: at(160), State: "RUNNING"},
	}}
	for _, test := range []struct{ start, account float64 }{{0.1, 0}, {1.2, 1}, {1.9, 1}, {100.3, 100}, {159, 100}, {160.9, 160}} {
		e := ended{job: 7, start: at(test.start)}
		got := e.account(accounts)
		if got == nil || !got.Start.Equal(at(test.account)) {
			t.Errorf("a run that began at %v s has the account %+v, want that of %v s", test.start, got, test.account)
		}
	}
}
