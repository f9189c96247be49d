package powerapi

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode: what is read can be written, and is the same when it is read again.
func FuzzDecode(f *testing.F) {
	// Short seeds, a report of each kind: the fuzzer minimises what is new, in a time that grows with
	// the square of the length. TestPageBothWays decodes whole files.
	for _, seed := range []string{
		`{"timestamp":1e12,"sensor":"s","target":"t","power":2.5}`,
		`{"timestamp":"2026-03-01T12:00:00.5","sensor":"s","target":"t","metadata":{"a":"b"},"power":"1"}`,
		`{"timestamp":1,"sensor":"s","target":"t","groups":{"g":{"0":{"1":{"e":5}}}}}`,
		`{"timestamp":1,"sensor":"s","target":["t"],"usage":{"t":1},"global_cpu_usage":2}`,
		"{}\n[]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for r, err := range DecodeJSON(bytes.NewReader(data)) {
			if err != nil {
				continue
			}
			line, err := r.AppendJSON(nil, ISO)
			if err != nil {
				t.Fatal(err)
			}
			if len(line) > MaxDocument {
				continue
			}
			again := decodeAll(t, line)
			if len(again) != 1 {
				t.Fatalf("%d reports in %s", len(again), line)
			}
			if twice := jsonLines(t, again, ISO); !bytes.Equal(twice, line) {
				t.Fatalf("%s came back as %s", line, twice)
			}
		}
	})
}

// FuzzCSV: what is read of a CSV file can be written as JSON and is the same.
func FuzzCSV(f *testing.F) {
	all := files(f)
	for _, name := range []string{"core.csv", "rapl.csv", "msr.csv", "power.csv", "procfs.csv"} {
		if len(all[name]) == 0 {
			f.Fatalf("no seed %s", name)
		}
		f.Add(all[name])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 1
		n := 0
		for r, err := range DecodeCSV(bytes.NewReader(data), GroupCore) {
			if err != nil {
				return
			}
			if n++; n > rows {
				t.Fatalf("%d reports of %d rows", n, rows)
			}
			if p, ok := r.(*PowerReport); ok && (math.IsNaN(p.Power) || math.IsInf(p.Power, 0)) {
				t.Fatal("a power that is no number")
			}
			line := jsonLines(t, []Report{r}, ISO)
			if again := jsonLines(t, decodeAll(t, line), ISO); !bytes.Equal(again, line) {
				t.Fatal(cmp.Diff(string(line), string(again)))
			}
		}
	})
}
