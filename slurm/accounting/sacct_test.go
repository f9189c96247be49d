package accounting

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/fakesacct"
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

// fixture returns the records that a real sacct printed, in which no name has a line feed.
func fixture(t testing.TB, path string) (records []fakesacct.Record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	header := strings.Split(lines[0], "|")
	for _, line := range lines[1:] {
		r := fakesacct.Record{}
		for i, value := range strings.SplitN(line, "|", len(header)) {
			at, err := time.Parse("2006-01-02T15:04:05", value)
			if err == nil {
				value = strconv.FormatInt(at.Unix(), 10)
			}
			r[header[i]] = value
		}
		records = append(records, r)
	}
	return records
}

// accountsOf returns what the calls of sacct give for the jobs of the records.
func accountsOf(t testing.TB, records []fakesacct.Record) []Account {
	t.Helper()
	var ids []uint64
	for _, r := range records {
		if id, err := strconv.ParseUint(r["JobIDRaw"], 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	sacct := func(args []string, timeFormat string) string {
		var out strings.Builder
		if err := fakesacct.Print(&out, records, args, timeFormat); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	accounts, err := ParseSacct(sacct(SacctArgs(ids), "%s"), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	mark := newMark()
	texts, err := parseTexts(sacct(textArgs(append(selectJobs(ids), "--allocations"), textFields), mark+"%%"), mark+"%", len(textFields))
	if err != nil {
		t.Fatal(err)
	}
	addTexts(accounts, texts)
	return accounts
}

func TestParseSacct(t *testing.T) {
	records := fixture(t, "testdata/sacct-P-all-lab-jobs.txt")
	accounts := accountsOf(t, records)
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
			Texts: Texts{User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n1", JobName: "simple"}},
		3: {JobID: 3, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](100 << 20), ArrayJobID: rt.Some[uint64](2), ArrayTaskID: rt.Some[uint64](3), State: "FAILED", Outcome: rt.OutcomeFailed, Code: some(3), Signal: some(0),
			Start: at("10:10:58"), End: at("10:10:58"), Texts: Texts{User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n1", JobName: "arr"}},
		5: {JobID: 5, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](100 << 20), HetJobID: rt.Some[uint64](4), HetJobOffset: rt.Some[uint64](1), State: "FAILED", Outcome: rt.OutcomeFailed, Code: some(0), Signal: some(9),
			Start: at("10:10:58"), End: at("10:10:59"), Texts: Texts{User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n2", JobName: "het"}},
		6: {JobID: 6, HasID: true, Limit: time.Hour, Mem: rt.Some[uint64](200 << 20), State: "COMPLETED", Outcome: rt.OutcomeFinished, Code: some(0), Signal: some(0), Start: at("10:10:59"), End: at("10:11:00"),
			Texts: Texts{User: "labuser", Account: "labacct", Partition: "lab", NodeList: "n[1-2]", JobName: "inter"}},
	}
	outcomes := map[rt.Outcome]int{}
	for _, a := range accounts {
		outcomes[a.Outcome]++
		a.Used, a.DBIndex = AccountUse{}, rt.None[uint64]() // see TestParseSacctUse
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
	const header = "JobIDRaw|State|ExitCode|DerivedExitCode|Start|End\n"
	start, end := time.Unix(1795168800, 0).UTC(), time.Unix(1795168860, 0).UTC()
	tests := []struct {
		name, text string
		want       []Account
		errs       int
	}{
		{"seconds", header + "12|TIMEOUT|0:0|0:11|1795168800|1795168860\n", []Account{{JobID: 12, State: "TIMEOUT", Outcome: rt.OutcomeTimeout,
			Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Derived: rt.Some[int64](139), Start: start, End: end}}, 0},
		{"not ended", header + "12|CANCELLED by 1001|0:15|0:0|1795168800|Unknown\n", []Account{{JobID: 12, State: "CANCELLED by 1001",
			Outcome: rt.OutcomeCancelled, Code: rt.Some[int64](0), Signal: rt.Some[int64](15), Derived: rt.Some[int64](0), Start: start}}, 0},
		{"a line that is too long", header + "12|FAILED|3:0|0:0|1795168800|1795168860|x\n", nil, 1},
		{"no fractions of seconds", header + "12|FAILED|3:0|0:0|2026-11-20T10:00:00.001|1795168860\n", []Account{{JobID: 12, State: "FAILED", Outcome: rt.OutcomeFailed,
			Code: rt.Some[int64](3), Signal: rt.Some[int64](0), Derived: rt.Some[int64](0), End: end}}, 0},
		{"running", header + "12|RUNNING|0:0|0:0|1795168800|Unknown\n", []Account{{JobID: 12, State: "RUNNING",
			Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Derived: rt.Some[int64](0), Start: start}}, 0},
		{"steps are ignored", header + "12.batch|COMPLETED|0:0||Unknown|Unknown\n12.0|COMPLETED|0:0||Unknown|Unknown\n", nil, 0},
		{"malformed lines do not hide others", header + "12|COMPLETED\nx|COMPLETED|0:0|0:0|1|1\n13|OUT_OF_MEMORY|0:125||1795168800|1795168860\n",
			[]Account{{JobID: 13, State: "OUT_OF_MEMORY", Outcome: rt.OutcomeOOM, Code: rt.Some[int64](0), Signal: rt.Some[int64](125), Start: start, End: end}}, 2},
		{"many", header + strings.Repeat("x\n", 1000), nil, 6},
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
		Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Start: began, End: began.Add(time.Hour), Limit: time.Hour,
		Texts: Texts{QOS: "normal", User: "alice", Account: "other", JobName: "train"},
	}
	run := prologRun()
	run.Outcome, run.OutcomeSource = rt.OutcomeTerminated, "kernel"
	if !a.Merge(&run) {
		t.Error("nothing was changed")
	}
	if run.Outcome != rt.OutcomeTimeout || run.OutcomeSource != "sacct" || run.QOS != "normal" || run.User != "alice" || run.Account != "acct" ||
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
	accounts := accountsOf(t, []fakesacct.Record{{
		"JobIDRaw": "12", "JobID": "12", "State": "COMPLETED", "ExitCode": "0:0", "Start": "1795168800", "End": "1795168900",
		"QOS": "normal", "AllocTRES": "billing=1,cpu=2,mem=150M,node=1", "JobName": "child",
	}})
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
	f.Add("JobIDRaw|State|MaxRSS\n1|RUNNING|\n1.0|RUNNING|4K\n")
	f.Add("Cluster|DBIndex|JobIDRaw|UID|State|Start\nlab|1|1|1001|CANCELLED by 0|1795168800\nlab|2|\n")
	f.Fuzz(func(t *testing.T, text string) {
		accounts, _ := ParseSacct(text, time.UTC)
		for _, a := range accounts {
			if a.JobID == 0 {
				t.Errorf("an account without a job: %+v", a)
			}
		}
	})
}
