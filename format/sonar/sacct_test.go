package sonar

import (
	"os"
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
		jobs, err := SacctJobs(string(text), zone)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:]
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

// zeroes are those of the page, and what sacct has nothing for.
var zeroes = map[string]bool{"": true, "Unknown": true, "0": true, "00:00:00": true, "0:0": true, "0.00M": true}

func compareSacct(t *testing.T, values []string, j *Job) {
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
	header := strings.Join(JobFields[:], "|") + "\n"
	good := "1|1" + strings.Repeat("|", len(JobFields)-2) + "name|with|bars\n"
	if jobs, err := SacctJobs(header+good+"1|2\n"+good+"3|cut", time.UTC); len(jobs) != 2 || err == nil ||
		!strings.Contains(err.Error(), "line 3") || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("%d jobs, %v", len(jobs), err)
	} else if jobs[0].JobName != "name|with|bars" {
		t.Errorf("JobName %q", jobs[0].JobName)
	}
	for _, text := range []string{"", "sacct: error: no", "JobID|State\n1|x\n"} {
		if _, err := SacctJobs(text, time.UTC); err == nil {
			t.Errorf("%q has no header and gives no error", text)
		}
	}
	if jobs, err := SacctJobs(header, time.UTC); jobs != nil || err != nil {
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
