package lake

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// values are the types of values in a report.
type values struct {
	Version int                  `json:"version"`
	CPU     usedSecs             `json:"cpu"`
	GPUs    []peak               `json:"gpus,omitempty"`
	Cores   []rt.Opt[float64]    `json:"cores"`
	Sensors map[string]string    `json:"sensors"`
	Energy  *joules              `json:"energy,omitempty"`
	Nested  []nested             `json:"nested"`
	Kinds   map[string][]float64 `json:"kinds"`
	Limit   uint64               `json:"limit"`
	At      time.Time            `json:"at"`
	signal
}

type usedSecs struct {
	UsedSecs rt.Opt[float64] `json:"used_secs"`
}

type peak struct {
	UUID      string         `json:"uuid"`
	PeakBytes rt.Opt[uint64] `json:"peak_bytes"`
}

type joules struct {
	Joules float64 `json:"joules"`
}

type nested struct {
	Name string   `json:"name"`
	List []string `json:"list"`
}

type signal struct {
	Signal rt.Opt[int64] `json:"exit_signal"`
}

// What is in a value is in the columns, with the names of its JSON. What is not known is null.
func TestValuesInColumns(t *testing.T) {
	v := values{
		Version: 3, CPU: usedSecs{rt.Some(1.5)},
		GPUs:    []peak{{"a", rt.Some[uint64](7)}, {"b", rt.None[uint64]()}},
		Cores:   []rt.Opt[float64]{rt.Some(0.0), {}, rt.Some(2.0)},
		Sensors: map[string]string{"nvml": "absent", "rapl": "ok"},
		Energy:  &joules{4.25},
		Nested:  []nested{{"x", []string{"1", "2"}}, {"y", nil}, {"z", []string{"3"}}},
		Limit:   1<<64 - 1, At: time.Date(2026, 3, 1, 10, 0, 0, 123456000, time.UTC),
	}
	v.Signal = rt.Some[int64](0)
	var now values
	own := &columns{}
	if err := own.appendFields(reflect.ValueOf(&now).Elem()); err != nil {
		t.Fatal(err)
	}
	schema, err := table.SchemaToArrowSchema(own.schema(), nil, true, false)
	if err != nil {
		t.Fatal(err)
	}
	own.bind(schema.Fields())
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, now = range []values{v, {}} {
		own.add(b.Field)
	}
	rows := b.NewRecordBatch()
	defer rows.Release()
	text, err := rows.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{
			"version": 3.0, "cpu": map[string]any{"used_secs": 1.5}, "cores": []any{0.0, nil, 2.0}, "energy": map[string]any{"joules": 4.25}, "kinds": nil,
			"gpus":    []any{map[string]any{"uuid": "a", "peak_bytes": 7.0}, map[string]any{"uuid": "b", "peak_bytes": nil}},
			"sensors": []any{map[string]any{"key": "nvml", "value": "absent"}, map[string]any{"key": "rapl", "value": "ok"}},
			"nested": []any{
				map[string]any{"name": "x", "list": []any{"1", "2"}}, map[string]any{"name": "y", "list": nil}, map[string]any{"name": "z", "list": []any{"3"}},
			},
			"limit": 9223372036854775807.0, "at": "2026-03-01T10:00:00.123456Z", "exit_signal": 0.0,
		},
		{
			"version": 0.0, "cpu": map[string]any{"used_secs": nil}, "cores": nil, "energy": nil, "kinds": nil, "gpus": nil, "sensors": nil, "nested": nil,
			"limit": 0.0, "at": nil, "exit_signal": nil,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A type without a column is an error, not a missing column. All columns of samples have one.
func TestUnknownType(t *testing.T) {
	var bad struct{ C chan int }
	if err := new(columns).appendFields(reflect.ValueOf(&bad).Elem()); err == nil {
		t.Error("a channel has a column")
	}
	new(sample).columns()
}
