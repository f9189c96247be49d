package powerapi

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

func files(tb testing.TB) map[string][]byte {
	tb.Helper()
	a, err := txtar.ParseFile("testdata/page.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range a.Files {
		out[f.Name] = f.Data
	}
	return out
}

func decodeAll(tb testing.TB, data []byte) []Report {
	tb.Helper()
	var out []Report
	for r, err := range DecodeJSON(bytes.NewReader(data)) {
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func jsonLines(tb testing.TB, reports []Report, stamp Stamp) []byte {
	tb.Helper()
	var out []byte
	for _, r := range reports {
		var err error
		if out, err = r.AppendJSON(out, stamp); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// The page's examples, which lack metadata, as a file's and as a socket's input are
// written; both are read as what they were made of.
func TestPageBothWays(t *testing.T) {
	f := files(t)
	reports := decodeAll(t, f["page.json"])
	if len(reports) != 4 {
		t.Fatalf("%d reports on the page", len(reports))
	}
	if d := cmp.Diff(string(f["file.jsonl"]), string(jsonLines(t, reports, ISO))); d != "" {
		t.Errorf("file (-want +got):\n%s", d)
	}
	if d := cmp.Diff(string(f["socket.jsonl"]), string(jsonLines(t, reports, Millis))); d != "" {
		t.Errorf("socket (-want +got):\n%s", d)
	}
	if d := cmp.Diff(reports, decodeAll(t, f["file.jsonl"])); d != "" {
		t.Errorf("read again (-want +got):\n%s", d)
	}
	again := decodeAll(t, f["socket.jsonl"])
	for i := range reports {
		reports[i].Head().Time = reports[i].Head().Time.Truncate(time.Millisecond)
	}
	if d := cmp.Diff(reports, again); d != "" {
		t.Errorf("read from the socket's (-want +got):\n%s", d)
	}
}

// The CSV of each group and kind, and back.
func TestPageCSV(t *testing.T) {
	f := files(t)
	reports := decodeAll(t, f["socket.jsonl"])
	for name, want := range map[string][]Report{
		"core.csv": {reports[0]}, "rapl.csv": {only(reports[1], "rapl")}, "msr.csv": {only(reports[1], "msr")},
		"power.csv": {reports[2]}, "procfs.csv": {reports[3]},
	} {
		group := strings.TrimSuffix(name, ".csv")
		var got bytes.Buffer
		w := NewCSVWriter(&got)
		if h, ok := want[0].(*HWPCReport); ok {
			w = NewGroupWriter(&got, group, events(h, group))
		}
		for _, r := range want {
			if err := w.Write(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(f[name]), got.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		var back []Report
		for r, err := range DecodeCSV(bytes.NewReader(f[name]), group) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			back = append(back, r)
		}
		if d := cmp.Diff(want, back); d != "" {
			t.Errorf("%s read (-want +got):\n%s", name, d)
		}
	}
}

func only(r Report, group string) Report {
	h := *r.(*HWPCReport)
	h.Groups = map[string]Sockets{group: h.Groups[group]}
	return &h
}

func events(r *HWPCReport, group string) []string {
	all := map[string]bool{}
	for _, cpus := range r.Groups[group] {
		for _, counters := range cpus {
			for e := range counters {
				all[e] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func TestStamps(t *testing.T) {
	at := func(us int64) time.Time { return time.UnixMicro(us).UTC() }
	for text, want := range map[string]time.Time{
		`1610531482630`:                   at(1610531482630000),
		`1610531482630.25`:                at(1610531482630250),
		`1.61053148263e12`:                at(1610531482630000),
		`"1610531482630"`:                 at(1610531482630000),
		`"2021-01-13T09:51:22"`:           at(1610531482000000),
		`"2021-01-13T09:51:22.6"`:         at(1610531482600000),
		`"2021-01-13 09:51:22.630"`:       at(1610531482630000),
		`"2021-01-13T09:51:22.630001"`:    at(1610531482630001),
		`"2021-01-13T10:51:22.63+01:00"`:  at(1610531482630000),
		`"2021-01-13T09:51:22.630+0000"`:  at(1610531482630000),
		`"2021-01-13T09:51:22.63Z"`:       at(1610531482630000),
		`"2021-01-13T09:51:22.630000999"`: at(1610531482630000),
		`-1`:                              at(-1000),
	} {
		got, err := parseStampJSON([]byte(text))
		if err != nil || !got.Equal(want) {
			t.Errorf("%s is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{`null`, `true`, `""`, `"yesterday"`, `"2021-13-01T00:00:00"`, `1e300`, `9223372036854775807`, `[1]`, `"NaN"`, `"Inf"`, `{}`} {
		if got, err := parseStampJSON([]byte(text)); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}

// What is no report says why, and the next one is read.
func TestBad(t *testing.T) {
	for doc, want := range map[string]string{
		`{"sensor":"s","target":"t","power":1}`:                                               "no timestamp",
		`{"timestamp":1,"target":"t","power":1}`:                                              "no sensor",
		`{"timestamp":1,"sensor":"s","power":1}`:                                              "no target",
		`{"timestamp":1,"sensor":"s","target":["t"],"power":1}`:                               "not a text",
		`{"timestamp":1,"sensor":"s","target":null,"power":1}`:                                "not a text",
		`{"timestamp":1,"sensor":"s","target":"t"}`:                                           "none of groups",
		`{"timestamp":1,"sensor":"s","target":"t","power":1,"usage":{}}`:                      "more than one",
		`{"timestamp":1,"sensor":"s","target":"t","power":1e999}`:                             "not a number",
		`{"timestamp":1,"sensor":"s","target":"t","power":-0.5}`:                              "the power is -0.5",
		`{"timestamp":1,"sensor":"s","target":"t","power":2e9}`:                               "the power is 2e+09",
		`{"timestamp":1,"sensor":"s","target":"t","usage":{"t":-1},"global_cpu_usage":1}`:     "the usage of t is -1",
		`{"timestamp":1,"sensor":"s","target":"t","usage":{"t":1},"global_cpu_usage":-2}`:     "the global_cpu_usage is -2",
		`{"timestamp":1,"sensor":"s","target":"t","usage":{}}`:                                "no global_cpu_usage",
		`{"timestamp":1,"sensor":"s","target":"t","groups":{"core":{"0":{"0":{"e":-1}}}}}`:    "-1",
		`{"timestamp":1,"sensor":"s","target":"t","groups":{"core":{"x":{"0":{"e":1}}}}}`:     "x",
		`{"timestamp":1,"sensor":"s","target":"t","groups":{"core":{"0":{"0":{"e":"one"}}}}}`: "string",
		`[]`: "array",
	} {
		const good = `{"timestamp":1,"sensor":"s","target":"t","power":1}`
		var n int
		var failed error
		for r, err := range DecodeJSON(strings.NewReader(doc + "\n" + good)) {
			if err != nil {
				failed = err
			}
			if r != nil {
				n++
			}
		}
		if failed == nil || !strings.Contains(failed.Error(), want) || n != 1 {
			t.Errorf("%s: %v and %d good ones, want %q and 1", doc, failed, n, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	doc := `{"timestamp":1,"sensor":"` + strings.Repeat("s", 3*MaxDocument) + `","target":"t","power":1}`
	for r, err := range DecodeJSON(strings.NewReader(doc)) {
		if r != nil || err == nil || !strings.Contains(err.Error(), "longer than") {
			t.Errorf("%v", err)
		}
	}
}

func TestBadCSV(t *testing.T) {
	for text, want := range map[string]string{
		"a,b\n1,2\n":                                                 "columns",
		"timestamp,sensor,target,power,power\n":                      "twice",
		"timestamp,sensor,target,power\n1,s,t\n":                     "wrong number of fields",
		"timestamp,sensor,target,power\n1,s,t,hot\n":                 "hot",
		"timestamp,sensor,target,power\n1,s,t,NaN\n":                 "power is NaN",
		"timestamp,sensor,target,power\nnow,s,t,1\n":                 "now",
		"timestamp,sensor,target,socket,cpu,E\n1,s,t,0,0,-5\n":       "line 2",
		"timestamp,sensor,target,socket,cpu,E\n1,s,t,zero,0,5\n":     "zero",
		"timestamp,sensor,target,usage,global_cpu_usage\n1,s,t,1,\n": "line 2",
	} {
		var failed error
		for _, err := range DecodeCSV(strings.NewReader(text), "core") {
			failed = err
		}
		if failed == nil || !strings.Contains(failed.Error(), want) {
			t.Errorf("%q: %v, want %q", text, failed, want)
		}
	}
}

// A power out of range drops its row.
func TestCSVOfNoPower(t *testing.T) {
	var watts []float64
	var failed []error
	for r, err := range DecodeCSV(strings.NewReader("timestamp,sensor,target,power\n1,s,t,5\n2,s,t,-1\n3,s,t,7\n4,s,t,3e9\n"), "") {
		if err != nil {
			failed = append(failed, err)
			continue
		}
		watts = append(watts, r.(*PowerReport).Power)
	}
	if !slices.Equal(watts, []float64{5, 7}) || len(failed) != 2 || !strings.Contains(failed[0].Error(), "line 3: the power is -1") {
		t.Errorf("%v, %v", watts, failed)
	}
}

// A clock that is set back makes no earlier time in CSV.
func TestCSVTimesNeverDecrease(t *testing.T) {
	var out bytes.Buffer
	w := NewCSVWriter(&out)
	for _, ms := range []int64{2000, 1000, 3000} {
		if err := w.Write(&PowerReport{Header: Header{Time: time.UnixMilli(ms), Sensor: "n1"}, Target: "c:1", Power: 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "timestamp,sensor,target,power\n2000,n1,c:1,0.5\n2000,n1,c:1,0.5\n3000,n1,c:1,0.5\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestRAPLCount(t *testing.T) {
	for uj, want := range map[uint64]uint64{0: 0, 1_000_000: 1 << 32, 1: 4295, 1_329_346_000_000: 5709497595068416} {
		got, err := RAPLCount(uj)
		if err != nil || got != want {
			t.Errorf("%d uJ are %d, %v; want %d", uj, got, err, want)
		}
		if j := Joules(got); j < float64(uj)/1e6-1e-6 || j > float64(uj)/1e6+1e-6 {
			t.Errorf("%d uJ came back as %g J", uj, j)
		}
	}
	if _, err := RAPLCount(1 << 63); err == nil {
		t.Error("an energy beyond the counter is counted")
	}
}
