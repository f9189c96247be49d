package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

// exportedAs is a run in one of the formats of export.
func exportedAs(t *testing.T, r *spool.Reader, format string) string {
	t.Helper()
	for _, e := range exporters {
		if e.format != format {
			continue
		}
		var out bytes.Buffer
		if err := e.write(t.Context(), &out, r, rt.ScopeJob); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	t.Fatalf("no format %s", format)
	return ""
}

// The samples of the run have the sums of the newest line of their interval.
func TestExportJSONWithGempba(t *testing.T) {
	r := withProgram(t, []int64{2, 4, 25},
		programLine(1000, "null", `{"worker_id":0,"tasks_local_total":1}`), programLine(2000, "null", `{"worker_id":0,"tasks_local_total":2}`),
		programLine(3000, "null", `{"worker_id":0,"tasks_local_total":3},{"worker_id":1,"tasks_local_total":4}`))
	var got []string
	for line := range strings.Lines(exportedAs(t, r, "jsonl")) {
		var sample struct {
			Version string `json:"resource-tracker-version"`
			GemPBA  *struct {
				TS      int64 `json:"ts"`
				Workers int   `json:"workers"`
				Local   int   `json:"tasks_local_total"`
			} `json:"gempba"`
		}
		if err := json.Unmarshal([]byte(line), &sample); err != nil || sample.Version == "" {
			t.Fatalf("%v: %s", err, line)
		}
		if sample.GemPBA == nil {
			got = append(got, "none")
		} else {
			got = append(got, fmt.Sprint(*sample.GemPBA))
		}
	}
	if strings.Join(got, ", ") != "{2000 1 2}, none, {3000 2 7}" {
		t.Errorf("samples have %q", got)
	}
}

// withProgram spools readings at 0, 10, ... s of the run, and lines of its program.
func withProgram(t *testing.T, seconds []int64, bodies ...string) *spool.Reader {
	t.Helper()
	run, list := runtest.Job()
	w, err := spool.Create(t.TempDir(), run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list[:4] {
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, body := range bodies {
		if err := w.Record(rt.ForeignReport{Time: list[0].Wall + seconds[i]*1e9, Source: "gempba", Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return runtest.Open(t, w.Path())
}

func programLine(ms int64, topology, workers string) string {
	return fmt.Sprintf(`{"version":1,"ts":%d,"elapsed_seconds":0,"topology":%s,"workers":[%s],"nodes":[{"sentinel_worker_id":0,"hostname":"n1"},{"sentinel_worker_id":1,"hostname":"n2"}]}`, ms, topology, workers)
}
