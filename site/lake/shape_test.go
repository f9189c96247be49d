package lake

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// What is in the report is in the columns of runs, with the names of its JSON.
func TestReportInColumns(t *testing.T) {
	r := report{
		Version: 3, CPU: cpu{rt.Some(1.5)},
		GPUs:    []gpu{{"a", rt.Some[uint64](7)}, {"b", rt.None[uint64]()}},
		Cores:   []rt.Opt[float64]{rt.Some(0.0), {}, rt.Some(2.0)},
		Sensors: map[string]string{"nvml": "absent", "rapl": "ok"},
		Energy:  &energy{4.25},
		Nested:  []nested{{"x", []string{"1", "2"}}, {"y", nil}, {"z", []string{"3"}}},
		Kinds:   map[string][]float64{"a": {1, 2}, "b": {3}},
	}
	r.Signal = rt.Some[int64](0)
	for _, r := range []report{r, {}} {
		e, err := newRunEncoder(reflect.TypeOf(r))
		if err != nil {
			t.Fatal(err)
		}
		row := parquet.Row{}
		for _, values := range e.encode(runHead{}, &r) {
			row = append(row, values...)
		}
		var b bytes.Buffer
		w := parquet.NewGenericWriter[any](&b, e.schema)
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		type readBack struct {
			Version int64 `parquet:"version,optional" json:"version"`
			CPU     struct {
				UsedSecs *float64 `parquet:"used_secs,optional" json:"used_secs"`
			} `parquet:"cpu" json:"cpu"`
			GPUs []struct {
				UUID      string `parquet:"uuid,optional" json:"uuid"`
				PeakBytes *int64 `parquet:"peak_bytes,optional" json:"peak_bytes"`
			} `parquet:"gpus,optional,list" json:"gpus,omitempty"`
			Cores   []*float64        `parquet:"cores,optional,list" json:"cores"`
			Sensors map[string]string `parquet:"sensors,optional" parquet-value:",optional" json:"sensors"`
			Energy  *struct {
				Joules float64 `parquet:"joules,optional" json:"joules"`
			} `parquet:"energy,optional" json:"energy,omitempty"`
			Nested []struct {
				Name string   `parquet:"name,optional" json:"name"`
				List []string `parquet:"list,optional,list" json:"list"`
			} `parquet:"nested,optional,list" json:"nested"`
			Signal *int64 `parquet:"exit_signal,optional" json:"exit_signal"`
		}
		back, err := parquet.Read[readBack](bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		want, got := tree(t, r), tree(t, back[0])
		for name, v := range got {
			if diff := cmp.Diff(want[name], v); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func tree(t *testing.T, v any) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A type without a column is an error, not a missing column.
func TestUnknownType(t *testing.T) {
	type bad struct{ C chan int }
	if _, err := New(Config{Report: reflect.TypeFor[bad]()}); err == nil {
		t.Error("a channel has a column")
	}
}
