package accounting

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/fakesacct"
)

// names are texts with which a user may try to look like another record.
var names = []string{
	"", "plain", "a|b|c", "|", "two\nlines", "\n", "cr\r\nlf", "\u2028\u2029\u0085", "世蓮 解析", "\xff\xfe\x01\x1f",
	"x\nlab|101|2|2|1002|FAILED|9:0|0:0|1795168800|1795169000|200|60|cpu=1",
	"x\n2|1795168000|101|1795168000|mallory|1795168000|evil|1795168000|cpu|1795168000||1795168000||1795168000|n9|1795168000|forged|1795168000",
	"|2026-11-20T10:00:00\n2|2026-11-20T10:00:00|101|2026-11-20T10:00:00|mallory", "%s", "%%", "|AAAAAAAAAAAAAAAA%\n",
	strings.Repeat("n", 1024), strings.Repeat("|\n", 512), "allocation",
}

// threeJobs are the records of three jobs. The second one has a step.
func threeJobs() []fakesacct.Record {
	job := func(id, uid, state string) fakesacct.Record {
		return fakesacct.Record{
			"Cluster": "lab", "JobIDRaw": id, "JobID": id, "UID": uid, "State": state, "ExitCode": "0:0", "DerivedExitCode": "0:0",
			"Start": "1795168800", "End": "1795169000", "ElapsedRaw": "200", "TimelimitRaw": "60", "AllocTRES": "cpu=1,mem=1G,node=1",
			"User": "user" + uid, "Account": "physics", "Partition": "cpu", "QOS": "normal", "NodeList": "n1", "JobName": "plain",
		}
	}
	return []fakesacct.Record{
		job("100", "1001", "COMPLETED"), job("101", "1002", "TIMEOUT"),
		{"JobIDRaw": "101.0", "JobID": "101.0", "State": "COMPLETED", "MaxRSS": "4K", "JobName": "step"}, job("102", "1003", "CANCELLED by 0"),
	}
}

// FuzzNames: whatever the texts of a job are, sacct's answers have one record for each job. Only
// the texts of this job change.
func FuzzNames(f *testing.F) {
	for i, name := range names {
		f.Add(name, names[(i+1)%len(names)], name)
	}
	for _, r := range fixture(f, "testdata/sacct-P-all-lab-jobs.txt") {
		f.Add(strings.Join(slices.Sorted(maps.Values(r)), "|")+"\n", "x\n"+r["JobIDRaw"]+"|", r["JobName"])
	}
	plain := accountsOf(f, threeJobs())
	f.Fuzz(func(t *testing.T, first, second, step string) {
		if strings.Contains(first+second+step, "\x00") {
			t.Skip("no argument and no environment has that")
		}
		records := threeJobs()
		fields := []string{"JobName", "Account", "User", "Partition", "QOS", "Reservation", "NodeList", "Comment", "WorkDir", "AdminComment"}
		for i, field := range fields {
			records[0][field] = []string{first, second}[i%2]
		}
		records[1]["JobName"], records[2]["JobName"] = second, step
		got := accountsOf(t, records)
		if len(got) != 3 {
			t.Fatalf("%d records of three jobs: %+v", len(got), got)
		}
		want := slices.Clone(plain)
		want[0].Texts = got[0].Texts
		want[1].JobName = got[1].JobName
		if d := cmp.Diff(want, got, optionals()); d != "" {
			t.Errorf("first %q, second %q (-want +got):\n%s", first, second, d)
		}
		checkName(t, first, got[0].JobName)
		checkName(t, second, got[1].JobName)
	})
}

// checkName: the name of a job is the user's, with replaced characters.
func checkName(t *testing.T, name, got string) {
	t.Helper()
	if name == noName {
		name = ""
	}
	isSame := name == got
	isStorable := utf8.ValidString(got) && !strings.ContainsFunc(got, unicode.IsControl)
	isClean := utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
	if !isStorable || (isClean && !isSame) {
		t.Errorf("the name %q became %q", name, got)
	}
}

// The call that says which record is whose has no field that a user can set.
func TestNoTextOfAUserIsStructure(t *testing.T) {
	users := []string{"JobName", "Account", "Comment", "AdminComment", "SystemComment", "WorkDir", "WCKey", "McsLabel", "Container", "SubmitLine",
		"User", "Group", "Reservation", "Constraints", "Licenses", "Extra", "StdOut", "StdErr", "StdIn", "Reason", "Layout"}
	for _, fields := range []string{sacctFields, sacctUseFields} {
		for _, name := range users {
			if slices.Contains(strings.Split(fields, ","), name) {
				t.Errorf("the field %s can be any text", name)
			}
		}
	}
}

func TestParseTexts(t *testing.T) {
	const line = "1|M%|7|M%|name|M%\n"
	for _, tt := range []struct {
		name, output string
		want         map[Record][]string
		isError      bool
	}{
		{"one", line, map[Record][]string{{"1", "7"}: {"name"}}, false},
		{"none", "", map[Record][]string{}, false},
		{"separators", "1|M%|7|M%||x|\n||M%\n", map[Record][]string{{"1", "7"}: {"|x|\n|"}}, false},
		{"a record twice", line + "1|M%|7|M%|other|M%\n2|M%|8|M%||M%\n" + line, map[Record][]string{{"2", "8"}: {""}}, false},
		{"another format of times", "1|1795168000|7|1795168000|name|1795168000\n", map[Record][]string{}, true},
		{"an old message", "sacct: no\n" + line, map[Record][]string{{"sacct: no\n1", "7"}: {"name"}}, false},
		{"cut", line + "2|M%|8", map[Record][]string{{"1", "7"}: {"name"}}, true},
	} {
		got, err := parseTexts(tt.output, "M%", 1)
		if d := cmp.Diff(tt.want, got); d != "" || (err != nil) != tt.isError {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, d)
		}
	}
}

// A mark is different in each call, and survives a Slurm that cuts a time after 19 bytes.
func TestMark(t *testing.T) {
	first, second := newMark(), newMark()
	if first == second || len(first) != 16 || strings.ContainsAny(first, "%|\n") {
		t.Errorf("the marks %q and %q", first, second)
	}
}

// A name of another alphabet in a database without its characters is no better than the known one.
func TestGarbledNameIsNotTaken(t *testing.T) {
	for _, tt := range []struct{ known, database, want string }{
		{"世蓮 解析", "?? ??", "世蓮 解析"}, {"世蓮 解析", "?? ?!", "?? ?!"}, {"世蓮", "???", "???"}, {"ab", "?b", "?b"}, {"", "??", "??"}, {"é", "é", "é"},
	} {
		run := prologRun()
		run.Meta.JobName = tt.known
		run.Meta.Tags["slurm_job_name"] = tt.known
		a := Account{JobID: 12, Start: began, Texts: Texts{JobName: tt.database}}
		if a.Merge(&run); run.Meta.JobName != tt.want {
			t.Errorf("known %q, in the database %q: %q, want %q", tt.known, tt.database, run.Meta.JobName, tt.want)
		}
	}
}

// The texts of a record go to that record, also if a job has several attempts.
func TestTextsOfAttempts(t *testing.T) {
	records := threeJobs()[:1]
	again := maps.Clone(records[0])
	again["Start"], again["End"], again["JobName"] = "1795169100", "1795169200", "renamed\x7f"
	got := accountsOf(t, append(records, again))
	if len(got) != 2 || got[0].JobName != "plain" || got[1].JobName != "renamed?" || got[1].DBIndex != rt.Some[uint64](2) {
		t.Errorf("%+v", got)
	}
	if id := strconv.FormatUint(got[1].JobID, 10); id != "100" {
		t.Errorf("job %s", id)
	}
}

// TestRealSacct: what sacct of three versions of Slurm printed for jobs with odd names. slurmdbd cuts names after
// 255 bytes; the database of 22.05 is in latin1. Job 6 was resized.
func TestRealSacct(t *testing.T) {
	const mark = "abcdefghijklmnop%"
	names := []string{
		"victim", "x?lab|1|1|1|1002|FAILED|9:0|0:0|1795168800|1795169000|200|60|cpu=1", "cr??|lf|", "\u2028世 蓮", strings.Repeat("n", 255), "resized",
	}
	for _, version := range []string{"22.05", "24.11", "26.05"} {
		names := slices.Clone(names)
		if version == "22.05" {
			names[3] = "?? ?"
		}
		read := func(call string) string {
			text, err := os.ReadFile("testdata/names/" + version + "." + call)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		accounts, err := ParseSacct(read("ends"), time.UTC)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		used, err := ParseSacct(read("use"), time.UTC)
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		texts, err := parseTexts(read("texts"), mark, len(textFields))
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		if len(accounts) != 7 || len(used) != 7 || len(texts) != 7 {
			t.Fatalf("%s: %d, %d and %d records", version, len(accounts), len(used), len(texts))
		}
		addTexts(accounts, texts)
		MergeUse(accounts, used)
		attempts := Attempts(accounts[5:])
		if len(attempts) != 1 || attempts[0].State != "CANCELLED by 0" || attempts[0].NodeList != "a[1-2]" {
			t.Errorf("%s: the resized job is %+v", version, attempts)
		}
		outcomes := []rt.Outcome{rt.OutcomeFinished, rt.OutcomeFinished, rt.OutcomeFinished, rt.OutcomeFailed, rt.OutcomeFinished, rt.OutcomeCancelled}
		for i, a := range append(accounts[:5:5], attempts...) {
			isOurs := a.JobID == uint64(i+1) && a.UID == rt.Some[uint64](1001) && a.User == "labuser" && a.Texts.Account == "labacct" && a.Partition == "lab"
			if !isOurs || a.JobName != names[i] || a.Outcome != outcomes[i] || !a.Used.CPU.Valid() || !a.Used.Elapsed.Valid() {
				t.Errorf("%s: job %d is %+v", version, i+1, a)
			}
		}
	}
}
