package drain

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/fakesacct"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
)

// asSacct is set where the test binary is the program sacct.
const asSacct = "RT_TEST_SACCT"

func TestMain(m *testing.M) {
	if os.Getenv(asSacct) != "" {
		fakesacct.Main()
	}
	os.Exit(m.Run())
}

// prints is the command of a shell that prints records as sacct does.
func prints(t *testing.T, records ...fakesacct.Record) string {
	t.Helper()
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "records")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Slurm's programs get few variables, and a program that was built with -race waits a second at its end.
	return fmt.Sprintf(`echo "$@" >>"$0.calls"; GORACE=atexit_sleep_ms=0 %s=1 SLURM_CONF="%s" exec "%s" "$@"`, asSacct, path, self)
}

func secs(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

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

// TestAccountingCompletesRuns: what the Epilog does not know comes from sacct, also for dead
// trackers. All jobs share one call for the outcomes, one for the names and one for the use.
func TestAccountingCompletesRuns(t *testing.T) {
	start := time.Unix(1795168800, 0)
	at := func(job int) time.Time { return start.Add(time.Duration(job) * time.Minute) }
	states := []string{"COMPLETED", "FAILED", "CANCELLED by 1001", "TIMEOUT", "OUT_OF_MEMORY", "PREEMPTED"}
	outcomes := []rt.Outcome{rt.OutcomeFinished, rt.OutcomeFailed, rt.OutcomeCancelled, rt.OutcomeTimeout, rt.OutcomeOOM, rt.OutcomeCancelled}
	var records []fakesacct.Record
	for job := 1; job <= 12; job++ {
		records = append(records, fakesacct.Record{
			"Cluster": "lab", "JobIDRaw": fmt.Sprint(job), "JobID": fmt.Sprintf("1_%d", job), "State": states[job%6], "ExitCode": "0:0",
			"Start": secs(at(job)), "End": secs(at(job).Add(time.Minute)), "User": fmt.Sprintf("user%d", job), "JobName": fmt.Sprintf("name\n%d", job),
		})
	}
	d := accounted(t, prints(t, records...))
	paths := map[string]int{}
	for job := 1; job <= 12; job++ {
		end := at(job).Add(time.Minute)
		if job%3 == 0 {
			end = time.Time{}
		}
		paths[d.spoolJob(t, uint64(job), at(job), end)] = job
	}
	entries, err := d.Runs(context.Background())
	if err != nil || len(entries) != len(paths) || d.accounted.SacctError != "" {
		t.Fatalf("%d entries of %d, %v, %s", len(entries), len(paths), err, d.accounted.SacctError)
	}
	for path, job := range paths {
		run := runAt(t, path)
		isOurs := run.Meta.JobName == fmt.Sprintf("name?%d", job) && run.User == fmt.Sprintf("user%d", job) && run.ArrayTaskID == rt.Some(uint64(job))
		if run.Outcome != outcomes[job%6] || run.OutcomeSource != "sacct" || !isOurs {
			t.Errorf("%s is %q by %q, named %q, task %v, of %q", path, run.Outcome, run.OutcomeSource, run.Meta.JobName, run.ArrayTaskID, run.User)
		}
	}
	if d.accounted.Accounted != len(paths) || d.lost != 4 {
		t.Errorf("%d of %d completed, %d lost", d.accounted.Accounted, len(paths), d.lost)
	}
	calls, err := os.ReadFile(d.Accounting.Sacct + ".calls")
	if err != nil || strings.Count(string(calls), "\n") != 3 || strings.Count(string(calls), "--allocations") != 2 || strings.Count(string(calls), "JobName") != 1 {
		t.Errorf("not one call, one for the names and one for the steps: %q, %v", calls, err)
	}
}

// These names look like the end of their record and the record of another job, in different orders of fields.
const (
	forged  = "x\nlab|2|101|101|1002|FAILED|9:0|0:0|1795168798|1795169400|600|60|cpu=1|mallory|evil|cpu|normal||n1|forged"
	forged2 = "x\nlab|101|101|FAILED|9:0|0:0|2026-11-20T10:00:00.001|1795169400|gold||mallory|evil|cpu|n1|600|60|cpu=1|forged"
)

// TestNameForgesNothing: the name of a job changes nothing of another job, whichever comes first.
func TestNameForgesNothing(t *testing.T) {
	start := time.Unix(1795168800, 0)
	job := func(id, uid, user, account, name string) fakesacct.Record {
		return fakesacct.Record{
			"Cluster": "lab", "JobIDRaw": id, "JobID": id, "UID": uid, "State": "COMPLETED", "ExitCode": "0:0", "Start": secs(start), "End": secs(start.Add(10 * time.Minute)),
			"User": user, "Account": account, "Partition": "cpu", "QOS": "normal", "JobName": name,
		}
	}
	victim := job("101", "1001", "alice", "physics", "real")
	for _, name := range []string{forged, forged2, forged + "\n", strings.ReplaceAll(forged, "|", "\n"), "\u2028" + forged, strings.Repeat("n", 1024), "\r"} {
		attacker := job("100", "1002", "mallory", "evil", name)
		for _, records := range [][]fakesacct.Record{{attacker, victim}, {victim, attacker}} {
			d := accounted(t, prints(t, records...))
			d.spoolJob(t, 100, start.Add(time.Second), start.Add(10*time.Minute))
			path := d.spoolJob(t, 101, start.Add(time.Second), start.Add(10*time.Minute))
			if _, err := d.Runs(t.Context()); err != nil || d.accounted.SacctError != "" || d.accounted.Accounted != 2 {
				t.Fatalf("%q: %v, %+v", name, err, d.accounted)
			}
			run := runAt(t, path)
			isHers := run.User == "alice" && run.Account == "physics" && run.Meta.JobName == "real" && run.QOS == "normal"
			if !isHers || run.Outcome != rt.OutcomeFinished || run.ExitCode != rt.Some[int64](0) || !run.JobStart.Equal(start) {
				t.Errorf("after the name %q: %+v", name, run)
			}
		}
	}
}

// TestNameStopsNoWait: whatever the answer about one job is, the run of another user waits for its record.
func TestNameStopsNoWait(t *testing.T) {
	now := time.Now()
	began := now.Add(-10 * time.Minute)
	odd := fakesacct.Record{"JobIDRaw": "200", "State": "COMPLETED", "Start": secs(began), "End": secs(now.Add(-5 * time.Minute)), "JobName": "two\nlines"}
	running := fakesacct.Record{"JobIDRaw": "201", "State": "RUNNING", "Start": secs(began), "End": "Unknown", "JobName": "real"}
	malformed := maps.Clone(odd)
	malformed["Cluster"] = "la|b"
	for name, record := range map[string]fakesacct.Record{"two lines": odd, "a malformed line": malformed} {
		d := accounted(t, prints(t, record, running))
		old := d.spoolJob(t, 200, began, now.Add(-5*time.Minute))
		d.spoolJob(t, 201, began, now.Add(-5*time.Second))
		d.spoolJob(t, 202, began, now.Add(-5*time.Second)) // has no record yet
		entries, err := d.Runs(t.Context())
		if err != nil || d.accounted.AwaitSacct != 2 || len(entries) != 1 || entries[0].Name != filepath.Base(old) {
			t.Errorf("%s: %+v, %v, %+v", name, entries, err, d.accounted)
		}
		isMalformed := strings.Contains(d.accounted.SacctError, "malformed")
		if isMalformed != (name == "a malformed line") {
			t.Errorf("%s: it says %q", name, d.accounted.SacctError)
		}
	}
}

// TestDoubtfulRecordIsNotUsed: what is not used is in the ledger, once.
func TestDoubtfulRecordIsNotUsed(t *testing.T) {
	start := time.Unix(1795168800, 0)
	record := fakesacct.Record{"JobIDRaw": "7", "UID": "1002", "State": "FAILED", "Start": secs(start), "End": secs(start.Add(time.Minute)), "JobName": "x"}
	later := maps.Clone(record)
	later["Start"] = secs(start.Add(time.Second))
	for says, records := range map[string][]fakesacct.Record{"at the same time": {record, later}, "of another user": {record}} {
		d := accounted(t, prints(t, records...))
		run := rt.Run{
			Identity:   rt.Identity{Cluster: "lab", JobID: rt.Some[uint64](7), Node: "n1", BootID: "another", Start: start.Add(2 * time.Second)},
			Allocation: rt.Allocation{Scheduler: "slurm", User: "alice", UID: rt.Some[uint64](1001)}, Ending: rt.Ending{State: rt.StateRunning},
		}
		w, err := spool.Create(d.Dir, run, rt.Host{}, spool.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run.Apply(rt.Exit{Outcome: rt.OutcomeUnknown, Source: "epilog", Time: start.Add(time.Minute)})
		if err := w.End(run); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if entries, err := d.Runs(t.Context()); err != nil || len(entries) != 1 {
				t.Fatalf("%s: %d entries, %v", says, len(entries), err)
			}
			if err := d.unlock(); err != nil {
				t.Fatal(err)
			}
		}
		if run := runAt(t, w.Path()); run.Outcome != rt.OutcomeUnknown || run.User != "alice" || run.Meta.JobName != "" {
			t.Errorf("%s: %+v", says, run)
		}
		if found := eventsOfSacct(t, w.Path()); len(found) != 1 || found[0].Status != "not used" || !strings.Contains(found[0].Detail, says) {
			t.Errorf("%s: the ledger has %+v", says, found)
		}
	}
}

func eventsOfSacct(t *testing.T, path string) []rt.Event {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e rt.Event) bool { return e.Name != "sacct" })
}

// For the run of a step, sacct changes only the identity of its job, if the file has that only as a
// tag. It changes neither the outcome nor the ledger.
func TestAccountingOfAStepsArray(t *testing.T) {
	end := time.Now().Add(-time.Hour).Truncate(time.Second)
	d := accounted(t, prints(t, fakesacct.Record{
		"Cluster": "lab", "JobIDRaw": "7", "JobID": "5_3", "State": "FAILED", "ExitCode": "1:0", "Start": secs(end.Add(-time.Minute)), "End": secs(end), "ElapsedRaw": "60", "JobName": "arr",
	}))
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
	if events := eventsOfSacct(t, claimed); len(events) > 0 {
		t.Errorf("the ledger has %+v", events)
	}
	if err := d.unlock(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Runs(context.Background()); err != nil || d.accounted.Accounted != 0 {
		t.Errorf("the second drain: %v, %+v", err, d.accounted)
	}
	if calls, err := os.ReadFile(d.Accounting.Sacct + ".calls"); err != nil || strings.Count(string(calls), "\n") != 3 {
		t.Errorf("not three calls of one drain: %q, %v", calls, err)
	}
}

// TestAccountingIsNotNeeded: whatever sacct does, each run is ready for delivery, except one
// that ended just now without a record.
func TestAccountingIsNotNeeded(t *testing.T) {
	now := time.Now()
	as := func(cluster, state, name string) string {
		return prints(t, fakesacct.Record{
			"Cluster": cluster, "JobIDRaw": "7", "State": state, "ExitCode": "0:0", "Start": secs(now.Add(-time.Hour)), "End": "Unknown", "JobName": name,
		})
	}
	record := func(state string) string { return as("lab", state, "md") }
	empty := prints(t)
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
		{"no name yet", as("lab", "FAILED", "allocation"), now, true, rt.OutcomeUnknown, ""},
		{"no name for long", as("lab", "FAILED", "allocation"), now.Add(-time.Minute), false, rt.OutcomeFailed, ""},
		{"completing for long", record("COMPLETING"), now.Add(-time.Minute), false, rt.OutcomeUnknown, ""},
		{"ended", record("NODE_FAIL"), now, false, rt.OutcomeFailed, ""},
		{"timeout", record("TIMEOUT"), now, false, rt.OutcomeTimeout, ""},
		{"of another cluster", as("b", "TIMEOUT", "md"), now.Add(-time.Minute), false, rt.OutcomeUnknown, ""},
		{"it fails", "echo 'sacct: error: slurmdbd: Connection refused' >&2; exit 1", now, false, rt.OutcomeUnknown, "Connection refused"},
		{"it hangs", hangs, now, false, rt.OutcomeUnknown, "did not answer within"},
		{"it leaves a child", `sleep 3 & echo >"$0.hangs"; exit 1`, now, false, rt.OutcomeUnknown, "did not answer within"},
		{"it is no sacct", "echo hello", now, false, rt.OutcomeUnknown, "no header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(tt.script, "sleep") {
				t.Skip("in make check: exec.Cmd waits a second for the child")
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
	job := fakesacct.Record{"Cluster": "lab", "JobIDRaw": "7", "State": "TIMEOUT", "Start": secs(start), "End": "Unknown", "ElapsedRaw": "60", "JobName": "md", "TotalCPU": "00:05"}
	answer := prints(t, job, fakesacct.Record{"JobIDRaw": "7.0", "State": "TIMEOUT", "MaxRSS": "4096", "MaxRSSNode": "n1"})
	for _, tt := range []struct{ name, script, detail, says string }{
		{"complete", answer, "state=TIMEOUT elapsed_secs=60 cpu_secs=5 max_rss_bytes=4096 max_rss_step=0 max_rss_node=n1", ""},
		{"it fails", "echo no >&2; exit 1", "state=TIMEOUT elapsed_secs=60", "have used"},
		{"it hangs", hangs, "state=TIMEOUT elapsed_secs=60", "did not answer within"},
		{"it says too much", "echo 'JobIDRaw|State'; head -c 33554432 /dev/zero", "state=TIMEOUT elapsed_secs=60", "more than 33554432 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := accounted(t, `case "$*" in *--allocations*) `+answer+";; *) "+tt.script+";; esac")
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
			if events := eventsOfSacct(t, path); len(events) != 1 || events[0].Detail != tt.detail {
				t.Errorf("the ledger has %+v, want %s", events, tt.detail)
			}
		})
	}
}
