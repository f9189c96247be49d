package sonar

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// all decodes until the first error.
func all(t *testing.T, data []byte) []Record {
	t.Helper()
	var records []Record
	for rec, err := range Decode(bytes.NewReader(data)) {
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		records = append(records, rec)
	}
	return records
}

// encodeAll writes records as they are in one file: each on a line of CSV, or all
// in one JSON object.
func encodeAll(records []Record, json bool) (out []byte, err error) {
	var samples []Sample
	var jobs []JobRecord
	for _, rec := range records {
		switch r := rec.(type) {
		case *Sample:
			samples = append(samples, *r)
			if !json {
				out, err = appendAs(out, r)
			}
		case *Sysinfo:
			if json {
				return r.AppendJSON(nil)
			}
			out, err = r.AppendCSV(out)
		case *JobRecord:
			jobs = append(jobs, *r)
			if !json {
				out, err = r.AppendCSV(out)
			}
		case *Failure:
			if json {
				return r.AppendJSON(nil), nil
			}
			out = r.AppendCSV(out)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case json && jobs != nil:
		return AppendJobsJSON(nil, jobs)
	case json && samples != nil:
		return AppendJSON(nil, &samples[0], samples)
	}
	return out, nil
}

func archive(tb testing.TB, name string) []txtar.File {
	tb.Helper()
	a, err := txtar.ParseFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return a.Files
}

func TestCanonicalFiles(t *testing.T) {
	for _, f := range archive(t, "testdata/canonical.txtar") {
		t.Run(f.Name, func(t *testing.T) {
			json := strings.HasSuffix(f.Name, ".json")
			var got []byte
			n := 0
			for line := range bytes.Lines(f.Data) {
				records := all(t, line)
				n += len(records)
				out, err := encodeAll(records, json)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, out...)
			}
			if d := cmp.Diff(string(f.Data), string(got)); d != "" {
				t.Errorf("decoded and encoded again (-want +got):\n%s", d)
			}
			if whole := all(t, f.Data); len(whole) != n {
				t.Errorf("the file at once gives %d records, line by line %d", len(whole), n)
			}
		})
	}
}

// TestPageRecord is the example of version 0.7 on the page.
func TestPageRecord(t *testing.T) {
	const line = "v=0.7.0,time=2023-08-10T11:09:41+02:00,host=somehost,cores=8,user=someone,job=0,cmd=slack,cpu%=3.9,cpukib=716924,gpus=none,gpu%=0,gpumem%=0,gpukib=0,cputime_sec=266\n"
	want := &Sample{
		Version: "0.7.0", Time: time.Date(2023, 8, 10, 9, 9, 41, 0, time.UTC), Host: "somehost", Cores: 8,
		User: "someone", Cmd: "slack", CPUPct: 3.9, CPUKiB: 716924, CPUTimeSec: 266,
	}
	got := all(t, []byte(line))
	if d := cmp.Diff([]Record{want}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if out, err := encodeAll(got, false); err != nil || string(out) != line {
		t.Errorf("encoded: %v\n%s", err, out)
	}
}

// TestPageGPUInfo is the example of version 0.13.
func TestPageGPUInfo(t *testing.T) {
	const field = `"gpuinfo=fan%=27|28|28,perf=P8|P8|P8,musekib=1014720|269696|269696,tempc=26|27|28,poww=4|1|19,powlimw=250|250|250,cez=300|300|300,memz=405|405|405"`
	want := []GPU{
		{FanPct: 27, Perf: "P8", MemUseKiB: 1014720, TempC: 26, PowerW: 4, PowerLimitW: 250, ClockMHz: 300, MemClockMHz: 405},
		{FanPct: 28, Perf: "P8", MemUseKiB: 269696, TempC: 27, PowerW: 1, PowerLimitW: 250, ClockMHz: 300, MemClockMHz: 405},
		{FanPct: 28, Perf: "P8", MemUseKiB: 269696, TempC: 28, PowerW: 19, PowerLimitW: 250, ClockMHz: 300, MemClockMHz: 405},
	}
	fields, err := SplitFree(field)
	if err != nil || len(fields) != 1 || fields[0].Name != "gpuinfo" {
		t.Fatalf("%+v, %v", fields, err)
	}
	got, err := parseGPUInfo(fields[0].Text)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, d)
	}
	if out := appendFree(nil, []Field{{Name: "gpuinfo", Text: string(appendGPUInfo(nil, got))}}); string(out) != field {
		t.Errorf("encoded: %s", out)
	}
}

// TestPageNested is the page's example of nested data. Both kinds of quoting are read; fields in quotes are written.
func TestPageNested(t *testing.T) {
	const written = `"a=x=1,""y=v,w""",b=z=3`
	for _, line := range []string{`a="x=1,y=""v,w""",b=z=3`, written} {
		got, err := SplitFree(line)
		if d := cmp.Diff([]string{"a", "b"}, []string{got[0].Name, got[1].Name}); d != "" || err != nil || len(got) != 2 {
			t.Fatalf("%s: %v (-want +got):\n%s", line, err, d)
		}
		for i, want := range [][]Field{{{"x", "1"}, {"y", "v,w"}}, {{"z", "3"}}} {
			sub, err := SplitFree(got[i].Text)
			if d := cmp.Diff(want, sub); d != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", line, err, d)
			}
			got[i].Text = string(appendFree(nil, sub))
		}
		if out := appendFree(nil, got); string(out) != written {
			t.Errorf("written: %s, want %s", out, written)
		}
	}
}

// TestPageSlurm is the envelope of the page, which has no "version".
func TestPageSlurm(t *testing.T) {
	got := all(t, []byte(`{"v":"0.13.0",
 "jobs":[{"JobID":"12","JobName":"x"}, {"JobID":"13"}]}`))
	want := []Record{&JobRecord{Version: "0.13.0", JobID: "12", JobName: "x"}, &JobRecord{Version: "0.13.0", JobID: "13"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestBase45(t *testing.T) {
	for n, want := range map[uint64]string{0: "(", 1: ")", 44: "_", 45: "(1", 897: "&J", 45 * 45: "(01"} {
		if got := string(AppendBase45(nil, n)); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	numbers := []uint64{0, 44, 45, 897, math.MaxUint64}
	for i := range numbers { // each of them in every position
		list := slices.Concat(numbers[i:], numbers[:i])
		got, err := DecodeBase45(string(AppendBase45(nil, list...)))
		if !slices.Equal(got, list) || err != nil {
			t.Errorf("%v came back as %v, %v", list, got, err)
		}
		load, err := decodeLoad(string(appendLoad(nil, list)))
		if !slices.Equal(load, list) || err != nil {
			t.Errorf("load %v came back as %v, %v", list, load, err)
		}
	}
	biggest := string(AppendBase45(nil, math.MaxUint64))
	for _, bad := range []string{"J", "&J\x00", "&é", biggest + "1", biggest[:len(biggest)-1] + "`", strings.Repeat("_`", 7) + strings.Repeat("`", 40)} {
		if got, err := DecodeBase45(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
	for _, bad := range []string{"(", biggest + ")"} {
		if got, err := decodeLoad(bad); err == nil {
			t.Errorf("load %q is %v", bad, got)
		}
	}
}

// TestOldUsers: what user said where there was no name.
func TestOldUsers(t *testing.T) {
	for user, want := range map[string]string{"_noinfo_1001": "1001 true", "_noinfo_": "0 false", "_zombie_7": "0 false", "anna": "0 false"} {
		uid, ok := UID(user)
		if got := fmt.Sprint(uid, " ", ok); got != want {
			t.Errorf("%s: %s, want %s", user, got, want)
		}
	}
	if NoInfoUID(1001) != "_noinfo_1001" {
		t.Errorf("NoInfoUID(1001) = %s", NoInfoUID(1001))
	}
}

func TestShortUnnamed(t *testing.T) {
	got := all(t, []byte("2023-06-15T08:45:37.5+00:00,h,56,alice,1381,python,172.4,69341544\n"))
	want := []Record{&Sample{
		Version: "0.6.0", Time: time.Date(2023, 6, 15, 8, 45, 37, 5e8, time.UTC), Host: "h", Cores: 56,
		User: "alice", Job: 1381, Cmd: "python", CPUPct: 172.4, CPUKiB: 69341544,
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
