package sonar

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestSacctJobs holds every field of what a real sacct printed against the record:
// the same but for the page's exceptions.
func TestSacctJobs(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for _, name := range []string{"testdata/sacct-lab-jobs.txt", "testdata/sacct-sonar-fields.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:]
		output, texts := inTwoCalls(lines)
		jobs, err := parseSacct(output, texts, zone)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(jobs) != len(lines) || len(jobs) == 0 {
			t.Fatalf("%s: %d jobs of %d lines", name, len(jobs), len(lines))
		}
		for i, line := range lines {
			compareSacct(t, strings.SplitN(line, "|", len(JobFields)), &jobs[i])
		}
		records := make([]Record, len(jobs))
		for i := range jobs {
			records[i] = &jobs[i]
		}
		for _, json := range []bool{false, true} {
			out, err := encodeAll(records, json)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(records, all(t, out)); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
}

// inTwoCalls returns what two calls of sacct give of lines with all fields.
func inTwoCalls(lines []string) (figures string, texts func(dbIndex, jobIDRaw string) []string) {
	all := map[string][]string{}
	figures = strings.Join(sacctFields(), "|") + "\n"
	for number, line := range lines {
		index := strconv.Itoa(number)
		values := strings.SplitN(line, "|", len(JobFields))
		value := func(name string) string { return values[slices.Index(JobFields[:], name)] }
		figures += index
		for _, name := range sacctFields()[1:] {
			figures += "|" + value(name)
		}
		figures += "\n"
		for _, name := range textFields {
			all[index+" "+value("JobIDRaw")] = append(all[index+" "+value("JobIDRaw")], value(name))
		}
	}
	return figures, func(dbIndex, jobIDRaw string) []string { return all[dbIndex+" "+jobIDRaw] }
}

// zeroes are the page's values, and the values for which sacct has nothing.
var zeroes = map[string]bool{"": true, "Unknown": true, "0": true, "00:00:00": true, "0:0": true, "0.00M": true}

func compareSacct(t *testing.T, values []string, j *JobRecord) {
	t.Helper()
	for i, p := range j.fields() {
		name, want := JobFields[i], values[i]
		switch {
		case zeroes[want] && name != "JobName" && name != "User" && name != "Account":
			want = ""
		case (name == "Start" || name == "End" || name == "Submit") && strings.Contains(want, "T"):
			want += "+01:00"
		}
		if *p != want {
			t.Errorf("job %s: %s is %q, sacct says %q", j.JobID, name, *p, values[i])
		}
	}
}

func TestSacctMalformed(t *testing.T) {
	header := strings.Join(sacctFields(), "|") + "\n"
	good := "5|1|1" + strings.Repeat("|", len(sacctFields())-3) + "\n"
	texts := func(dbIndex, jobIDRaw string) []string {
		return []string{"alice", "physics", "", "n1", "cpu", dbIndex + " of " + jobIDRaw + "\n2|2"}
	}
	jobs, err := parseSacct(header+good+"5|1|2\n"+good+"5|3|cut", texts, time.UTC)
	if len(jobs) != 2 || err == nil || !strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), "line 5") {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	if j := jobs[0]; j.User != "alice" || j.Account != "physics" || j.Partition != "cpu" || j.JobName != "5 of 1\ufffd2|2" {
		t.Errorf("%+v", j)
	}
	none := func(_, _ string) []string { return nil }
	if jobs, err := parseSacct(header+good, none, time.UTC); err != nil || len(jobs) != 1 || jobs[0].JobName != "" {
		t.Errorf("without the texts: %+v, %v", jobs, err)
	}
	for _, text := range []string{"", "sacct: error: no", "JobID|State\n1|x\n"} {
		if _, err := parseSacct(text, none, time.UTC); err == nil {
			t.Errorf("%q has no header and gives no error", text)
		}
	}
	if jobs, err := parseSacct(header, none, time.UTC); jobs != nil || err != nil {
		t.Errorf("no jobs: %v, %v", jobs, err)
	}
}

// TestSacctTimes: seconds since the epoch, which no change of the clocks makes ambiguous.
func TestSacctTimes(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"1792891800": "2026-10-25T02:30:00+01:00", "1792888200": "2026-10-25T02:30:00+02:00",
		"2026-07-01T00:00:00": "2026-07-01T00:00:00+02:00", "None": "None", "Unknown": "", "0": "",
	} {
		if got := sacctValue("Start", value, zone); got != want {
			t.Errorf("%s is %q, want %q", value, got, want)
		}
	}
}
