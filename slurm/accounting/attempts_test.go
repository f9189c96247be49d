package accounting

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func seconds(secs float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(secs * float64(time.Second)))
}

func jobRun(start float64) *rt.Run {
	return &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](7), Start: seconds(start)}}
}

// An attempt that began in the second in which another one ended gets its own account. The order of
// sacct's lines does not matter.
func TestAccountOfAttempt(t *testing.T) {
	records := []Account{
		{JobID: 7, Start: seconds(0), End: seconds(1), State: "REQUEUED"},
		{JobID: 7, Start: seconds(1), End: seconds(2), State: "COMPLETED"},
		{JobID: 7, Start: seconds(100), End: seconds(120), State: "REQUEUED"},
		{JobID: 7, Start: seconds(125), End: seconds(160), State: "REQUEUED"},
		{JobID: 7, Start: seconds(160), State: "RUNNING"},
	}
	for range 2 {
		attempts := Attempts(slices.Clone(records))
		for _, test := range []struct{ start, account float64 }{{0.1, 0}, {1.2, 1}, {1.9, 1}, {100.3, 100}, {124.5, 125}, {159, 125}, {160.9, 160}} {
			got, problem := Of(attempts, jobRun(test.start))
			if got == nil || problem != "" || !got.Start.Equal(seconds(test.account)) {
				t.Errorf("a run that began at %v s has the account %+v (%s), want the one of %v s", test.start, got, problem, test.account)
			}
		}
		slices.Reverse(records)
	}
}

// Attempts of one job are never at the same time: if sacct says so, it is not known which one is the run's.
func TestOverlappingAccountsAreNotUsed(t *testing.T) {
	one := Account{JobID: 7, Start: seconds(0), End: seconds(60), State: "COMPLETED"}
	for _, tt := range []struct {
		name  string
		other Account
		isBad bool
	}{
		{"the same time", Account{JobID: 7, Start: seconds(0), End: seconds(60), State: "FAILED"}, true},
		{"a second later", Account{JobID: 7, Start: seconds(1), End: seconds(61), State: "FAILED"}, true},
		{"it never ended", Account{JobID: 7, Start: seconds(-900), State: "RUNNING"}, true},
		{"before", Account{JobID: 7, Start: seconds(-60), End: seconds(0), State: "REQUEUED"}, false},
		{"after", Account{JobID: 7, Start: seconds(60), State: "RUNNING"}, false},
		{"it never began", Account{JobID: 7, State: "PENDING"}, false},
		{"of another cluster", Account{JobID: 7, Cluster: "b", Start: seconds(0), End: seconds(60)}, false},
	} {
		run := jobRun(2)
		run.Cluster = "a"
		mine := one
		mine.Cluster = "a"
		if tt.other.Cluster == "" {
			tt.other.Cluster = "a"
		}
		for _, records := range [][]Account{{mine, tt.other}, {tt.other, mine}} {
			got, problem := Of(Attempts(slices.Clone(records)), run)
			isNone := got == nil && strings.Contains(problem, "two records of job 7")
			if isNone != tt.isBad || (got == nil) != tt.isBad {
				t.Errorf("%s: %+v, %q", tt.name, got, problem)
			}
		}
	}
}

// The record of another user is not used, whatever else it says.
func TestAccountOfAnotherUserIsNotUsed(t *testing.T) {
	for _, tt := range []struct {
		name      string
		uid, ours rt.Opt[uint64]
		user      string
		run       string
		isUsed    bool
	}{
		{"same id", rt.Some[uint64](1001), rt.Some[uint64](1001), "", "", true},
		{"same id, another name", rt.Some[uint64](1001), rt.Some[uint64](1001), "ALICE", "alice", true},
		{"another id, same name", rt.Some[uint64](1002), rt.Some[uint64](1001), "alice", "alice", false},
		{"only names", rt.Some[uint64](1002), rt.None[uint64](), "mallory", "alice", false},
		{"same name", rt.Some[uint64](1002), rt.None[uint64](), "alice", "alice", true},
		{"nothing is known", rt.Some[uint64](1002), rt.None[uint64](), "alice", "", true},
	} {
		run := jobRun(2)
		run.UID, run.User = tt.ours, tt.run
		got, problem := Of([]Account{{JobID: 7, UID: tt.uid, Start: seconds(0), End: seconds(60), Texts: Texts{User: tt.user}}}, run)
		if (got != nil) != tt.isUsed || (problem == "") != tt.isUsed {
			t.Errorf("%s: %+v, %q", tt.name, got, problem)
		}
	}
}

// Slurm ends the record of a job that gets other nodes, and begins another record. That has the
// start of the job, as in Slurm 22.05, or the time of the change.
func TestResizedJobHasOneAttempt(t *testing.T) {
	n := rt.Some[uint64]
	first := Account{JobID: 7, State: "RESIZING", Start: seconds(0), End: seconds(10), Mem: n(8),
		Texts: Texts{NodeList: "n[1-2]", JobName: "md"}, Used: AccountUse{Elapsed: n(10), CPU: n(5), MaxRSS: n(70), MaxRSSStep: "0"}}
	second := Account{JobID: 7, State: "COMPLETED", Outcome: rt.OutcomeFinished, Start: seconds(0), End: seconds(30), Mem: n(4),
		Texts: Texts{NodeList: "n1", JobName: "md"}, Used: AccountUse{Elapsed: n(30), CPU: n(6), MaxRSS: n(60), MaxRSSStep: "1"}}
	for _, name := range []string{"the start of the job", "the time of the change"} {
		if name == "the time of the change" {
			second.Start, second.Used.Elapsed = first.End, n(20)
		}
		attempts := Attempts([]Account{second, first})
		if len(attempts) != 1 {
			t.Fatalf("%s: %d attempts: %+v", name, len(attempts), attempts)
		}
		a, problem := Of(attempts, jobRun(0.5))
		if a == nil || problem != "" {
			t.Fatalf("%s: none: %s", name, problem)
		}
		isWhole := a.Start.Equal(seconds(0)) && a.End.Equal(seconds(30)) && a.Used.Elapsed == n(30) && a.Used.CPU == n(11)
		if !isWhole || a.Outcome != rt.OutcomeFinished || a.Mem != n(8) || a.NodeList != "n[1-2]" || a.Used.MaxRSS != n(70) || a.Used.MaxRSSStep != "0" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	twice := []Account{
		{JobID: 7, State: "RESIZING", Start: seconds(0), End: seconds(10)}, {JobID: 7, State: "RESIZING", Start: seconds(0), End: seconds(20)},
		{JobID: 7, State: "RUNNING", Start: seconds(0)}, {JobID: 7, State: "PENDING"},
	}
	a, problem := Of(Attempts(twice), jobRun(0.5))
	if a == nil || a.State != "RUNNING" || problem != "" {
		t.Errorf("resized twice: %+v, %s", a, problem)
	}
}

// What sacct does not count as elapsed is the time in which the job was suspended. The event has Slurm's
// own state, and who cancelled the job.
func TestEventOfTheEnd(t *testing.T) {
	for _, tt := range []struct {
		state   string
		end     float64
		elapsed rt.Opt[uint64]
		want    string
	}{
		{"PREEMPTED", 600, rt.Some[uint64](600), "state=PREEMPTED elapsed_secs=600"},
		{"CANCELLED by 1001", 600, rt.Some[uint64](600), "state=CANCELLED cancelled_by_uid=1001 elapsed_secs=600"},
		{"CANCELLED by 0", 600, rt.None[uint64](), "state=CANCELLED cancelled_by_uid=0"},
		{"COMPLETED", 1800, rt.Some[uint64](602), "state=COMPLETED elapsed_secs=602 suspended_secs=1198"},
		{"COMPLETED", 600, rt.Some[uint64](700), "state=COMPLETED elapsed_secs=700"},
		{"a state", 600, rt.Some[uint64](1), "elapsed_secs=1 suspended_secs=599"},
	} {
		a := Account{JobID: 7, State: tt.state, Start: seconds(0), End: seconds(tt.end), Used: AccountUse{Elapsed: tt.elapsed}}
		if e, ok := a.Event(seconds(0)); !ok || e.Detail != tt.want {
			t.Errorf("%s: %q, want %q", tt.state, e.Detail, tt.want)
		}
	}
}
