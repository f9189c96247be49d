package accounting

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// began is when tracking begins in all tests.
var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// prologRun is the run of a Prolog of job 12.
func prologRun() rt.Run {
	run := rt.Run{
		Identity: rt.Identity{Cluster: "lab", JobID: rt.Some[uint64](12), Node: "n1", Start: began},
		Allocation: rt.Allocation{
			Scheduler: "slurm", Account: "acct",
			AllocCPUs: rt.Some[uint64](2),
		},
		Ending: rt.Ending{State: rt.StateRunning},
	}
	slurm.Describe(&run)
	return run
}

func optionals() cmp.Options {
	return cmp.Options{
		cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b }),
		cmp.Comparer(func(a, b rt.Opt[int64]) bool { return a == b }),
	}
}

func TestParseSacct(t *testing.T) {
	text, err := os.ReadFile("testdata/sacct-P-all-lab-jobs.txt")
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := ParseSacct(string(text), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	at := func(clock string) time.Time {
		v, err := time.Parse(time.DateTime, "2026-11-20 "+clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	some := rt.Some[int64]
	want := map[uint64]Account{
		1: {JobID: 1, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](200 << 20), State: "FAILED", Outcome: rt.OutcomeFailed, Code: some(7), Signal: some(0), Start: at("10:10:26"), End: at("10:10:31"),
			User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n1", JobName: "simple"},
		3: {JobID: 3, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](100 << 20), ArrayJobID: rt.Some[uint64](2), ArrayTaskID: rt.Some[uint64](3), State: "FAILED", Outcome: rt.OutcomeFailed, Code: some(3), Signal: some(0),
			Start: at("10:10:58"), End: at("10:10:58"), User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n1", JobName: "arr"},
		5: {JobID: 5, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](100 << 20), HetJobID: rt.Some[uint64](4), HetJobOffset: rt.Some[uint64](1), State: "FAILED", Outcome: rt.OutcomeFailed, Code: some(0), Signal: some(9),
			Start: at("10:10:58"), End: at("10:10:59"), User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n2", JobName: "het"},
		6: {JobID: 6, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](200 << 20), State: "COMPLETED", Outcome: rt.OutcomeFinished, Code: some(0), Signal: some(0), Start: at("10:10:59"), End: at("10:11:00"),
			User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n[1-2]", JobName: "inter"},
	}
	outcomes := map[rt.Outcome]int{}
	for _, a := range accounts {
		outcomes[a.Outcome]++
		a.Used = AccountUse{} // see TestParseSacctUse
		if w, ok := want[a.JobID]; ok {
			if d := cmp.Diff(w, a, optionals()); d != "" {
				t.Errorf("job %d (-want +got):\n%s", a.JobID, d)
			}
			delete(want, a.JobID)
		}
	}
	if len(want) != 0 {
		t.Errorf("not found: %v", want)
	}
	for _, o := range []rt.Outcome{rt.OutcomeFinished, rt.OutcomeFailed, rt.OutcomeCancelled} {
		if outcomes[o] == 0 {
			t.Errorf("no job is %s: %v", o, outcomes)
		}
	}
}

func TestParseSacctLines(t *testing.T) {
	const header = "JobIDRaw|State|ExitCode|DerivedExitCode|Start|End|JobName\n"
	start, end := time.Unix(1795168800, 0).UTC(), time.Unix(1795168860, 0).UTC()
	tests := []struct {
		name, text string
		want       []Account
		errs       int
	}{
		{"seconds", header + "12|TIMEOUT|0:0|0:11|1795168800|1795168860|x\n", []Account{{JobID: 12, State: "TIMEOUT", Outcome: rt.OutcomeTimeout,
			Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Derived: rt.Some[int64](139), Start: start, End: end, JobName: "x"}}, 0},
		{"separator in the name", header + "12|CANCELLED by 1001|0:15|0:0|1795168800|Unknown|a|b|c\n", []Account{{JobID: 12, State: "CANCELLED by 1001",
			Outcome: rt.OutcomeCancelled, Code: rt.Some[int64](0), Signal: rt.Some[int64](15), Derived: rt.Some[int64](0), Start: start, JobName: "a|b|c"}}, 0},
		{"no name yet", header + "12|FAILED|3:0|0:0|1795168800|1795168860|allocation\n", []Account{{JobID: 12, State: "FAILED", Outcome: rt.OutcomeFailed,
			Code: rt.Some[int64](3), Signal: rt.Some[int64](0), Derived: rt.Some[int64](0), Start: start, End: end}}, 0},
		{"running", header + "12|RUNNING|0:0|0:0|1795168800|Unknown|x\n", []Account{{JobID: 12, State: "RUNNING",
			Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Derived: rt.Some[int64](0), Start: start, JobName: "x"}}, 0},
		{"steps are ignored", header + "12.batch|COMPLETED|0:0||Unknown|Unknown|batch\n12.0|COMPLETED|0:0||Unknown|Unknown|y\n", nil, 0},
		{"malformed lines do not hide others", header + "12|COMPLETED\nx|COMPLETED|0:0|0:0|1|1|x\n13|OUT_OF_MEMORY|0:125||1795168800|1795168860|y\n",
			[]Account{{JobID: 13, State: "OUT_OF_MEMORY", Outcome: rt.OutcomeOOM, Code: rt.Some[int64](0), Signal: rt.Some[int64](125), Start: start, End: end, JobName: "y"}}, 2},
		{"nothing", "", nil, 0},
		{"no jobs", header, nil, 0},
		{"no header", "sacct: error: slurmdbd is down\n", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseSacct(tt.text, time.UTC)
			if d := cmp.Diff(tt.want, got, optionals()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			errs := 0
			if err != nil {
				errs = len(strings.Split(err.Error(), "\n"))
			}
			if errs != tt.errs {
				t.Errorf("errors: %v, want %d", err, tt.errs)
			}
		})
	}
}

func TestSacctArgs(t *testing.T) {
	for steps, command := range map[bool]func([]uint64) []string{false: SacctArgs, true: SacctUseArgs} {
		args := command([]uint64{12, 13})
		if !slices.Contains(args, "--jobs=12,13") || !slices.Contains(args, "--duplicates") || slices.Contains(args, "--allocations") == steps {
			t.Errorf("%q", args)
		}
	}
	if strings.Contains(sacctFields, "CPU") {
		t.Error("sacct reports no use of jobs without their steps")
	}
	if !strings.HasSuffix(sacctFields, ",JobName") {
		t.Error("JobName can have the separator and must be the last field")
	}
}

func TestAccountDescribes(t *testing.T) {
	a := Account{JobID: 12, Start: began, End: began.Add(time.Minute)}
	for offset, want := range map[time.Duration]bool{
		-time.Hour: false, -time.Second: true, 0: true, 59 * time.Second: true, time.Hour: false,
	} {
		run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Start: began.Add(offset)}}
		if got := a.Describes(&run); got != want {
			t.Errorf("a run that began %s after the attempt: %v, want %v", offset, got, want)
		}
	}
	if other := (rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](13), Start: began}}); a.Describes(&other) {
		t.Error("describes another job")
	}
	elsewhere := rt.Run{Identity: rt.Identity{Cluster: "b", JobID: rt.Some[uint64](12), Start: began}}
	if a.Cluster = "a"; a.Describes(&elsewhere) {
		t.Error("describes a job of another cluster")
	}
	if elsewhere.Cluster = "A"; !a.Describes(&elsewhere) {
		t.Error("does not describe a job of its cluster")
	}
	a.End = time.Time{}
	if late := (rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Start: began.Add(time.Hour)}}); !a.Describes(&late) {
		t.Error("an attempt that has not ended does not describe its run")
	}
}

func TestAccountMerge(t *testing.T) {
	a := Account{
		JobID: 12, HasID: true, ArrayJobID: rt.Some[uint64](10), ArrayTaskID: rt.Some[uint64](3), State: "TIMEOUT", Outcome: rt.OutcomeTimeout,
		Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Start: began, End: began.Add(time.Hour), QOS: "normal", Account: "other", JobName: "train",
		Limit: time.Hour,
	}
	run := prologRun()
	run.Outcome, run.OutcomeSource = rt.OutcomeTerminated, "kernel"
	if !a.Merge(&run) {
		t.Error("nothing was changed")
	}
	if run.Outcome != rt.OutcomeTimeout || run.OutcomeSource != "sacct" || run.QOS != "normal" || run.Account != "other" ||
		run.Meta.JobName != "train" || run.Meta.ExternalRunID != "lab:10_3@n1#0" || !run.End.Equal(a.End) || !run.JobEndLimit.Equal(began.Add(time.Hour)) {
		t.Errorf("run %+v", run)
	}
	if a.Merge(&run) {
		t.Error("the same account changed the run twice")
	}
	lost := prologRun()
	lost.Outcome, lost.OutcomeSource = rt.OutcomeLost, "drain"
	if a.Merge(&lost); lost.Outcome != rt.OutcomeTimeout || lost.OutcomeSource != "sacct" || lost.Meta.JobName != "train" {
		t.Errorf("a lost run became %+v", lost)
	}
}

// The account replaces values from a process of the job. The user's labels stay.
func TestAccountCorrects(t *testing.T) {
	accounts, err := ParseSacct("JobIDRaw|JobID|State|ExitCode|Start|End|QOS|Reservation|AllocTRES|JobName\n"+
		"12|12|COMPLETED|0:0|1795168800|1795168900|normal||billing=1,cpu=2,mem=150M,node=1|child\n", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	run := prologRun()
	run.NumNodes = rt.Some[uint64](1)
	slurm.Update(&run, func(run *rt.Run) {
		run.ArrayJobID, run.ArrayTaskID, run.QOS = rt.Some[uint64](500), rt.Some[uint64](9), "gold"
	})
	slurm.SetJobName(&run, "step", true)
	run.Meta.Team = "mine"
	run.Meta.Tags[slurm.EnvironArrayTag], run.Meta.Tags[slurm.EnvironQOSTag] = "500_9", "gold"
	first := run
	if !accounts[0].Merge(&run) {
		t.Error("nothing was changed")
	}
	m := run.Meta
	if run.ArrayJobID.Valid() || run.ArrayTaskID.Valid() || run.QOS != "normal" || run.AllocMem != rt.Some[uint64](150<<20) {
		t.Errorf("run %+v", run)
	}
	if m.ExternalRunID != "lab:12@n1#0" || m.JobName != "child" || m.TaskName != "" || m.Team != "mine" || m.Tags["slurm_qos"] != "normal" {
		t.Errorf("metadata %+v", m)
	}
	for _, tag := range []string{slurm.EnvironArrayTag, slurm.EnvironQOSTag} {
		if m.Tags[tag] != "" || first.Meta.Tags[tag] == "" {
			t.Errorf("the tag %s: %q, in the run before %q", tag, m.Tags[tag], first.Meta.Tags[tag])
		}
	}
	if accounts[0].Merge(&run) {
		t.Error("the same account changed the run twice")
	}
}

func FuzzParseSacct(f *testing.F) {
	text, err := os.ReadFile("testdata/sacct-P-sonar-fields.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("JobIDRaw|State\n1|RUNNING\n")
	f.Fuzz(func(t *testing.T, text string) {
		accounts, _ := ParseSacct(text, time.UTC)
		for _, a := range accounts {
			if a.JobID == 0 {
				t.Errorf("an account without a job: %+v", a)
			}
			if a.JobName != "" && !slurm.Printable(a.JobName, slurm.MaxValue) {
				t.Errorf("job name %q", a.JobName)
			}
		}
	})
}
