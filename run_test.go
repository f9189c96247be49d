package rt

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

var started = time.Date(2025, 3, 30, 2, 0, 0, 123e6, time.UTC)

func TestRunNames(t *testing.T) {
	tests := []struct {
		name                  string
		run                   Run
		label, external, stem string
	}{
		{"job", Run{Identity: Identity{Cluster: "c", JobID: Some[uint64](12), Node: "n1", Attempt: 1, Start: started}}, "12", "c:12@n1#1", "job-12-n1-1743300000123"},
		{"array task", Run{Identity: Identity{Cluster: "c", JobID: Some[uint64](14), ArrayJobID: Some[uint64](12), ArrayTaskID: Some[uint64](3), Node: "n1", Start: started}}, "12_3", "c:12_3@n1#0", "job-14-n1-1743300000123"},
		{"array id without a task", Run{Identity: Identity{Cluster: "c", JobID: Some[uint64](14), ArrayJobID: Some[uint64](12), Node: "n1", Start: started}}, "14", "c:14@n1#0", "job-14-n1-1743300000123"},
		{"array task of unknown id", Run{Identity: Identity{Cluster: "c", ArrayJobID: Some[uint64](12), ArrayTaskID: Some[uint64](3), Node: "n1", Start: started}}, "12_3", "", "job-12_3-n1-1743300000123"},
		{"step", Run{Identity: Identity{Cluster: "c", JobID: Some[uint64](12), Step: "0", Node: "n1", Start: started}}, "12.0", "c:12.0@n1#0", "job-12.0-n1-1743300000123"},
		{"command", Run{Identity: Identity{Node: "a.b/../c", Start: started}, PID: Some[uint64](99)}, "-", "", "run-99-a_b____c-1743300000123"},
		{"machine", Run{Identity: Identity{Node: "h", Start: started}}, "-", "", "run-h-1743300000123"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.run.Label(); got != tt.label {
				t.Errorf("Label = %q, want %q", got, tt.label)
			}
			if got := tt.run.ExternalRunID(); got != tt.external {
				t.Errorf("ExternalRunID = %q, want %q", got, tt.external)
			}
			if got := tt.run.FileStem(); got != tt.stem {
				t.Errorf("FileStem = %q, want %q", got, tt.stem)
			}
		})
	}
	r := Run{Identity: Identity{Node: strings.Repeat("x", 500), Step: "../../etc", JobID: Some[uint64](1), Start: started}}
	if stem := r.FileStem(); len(stem) > 120 || strings.ContainsAny(stem, "/\x00 ") {
		t.Errorf("FileStem = %q", stem)
	}
}

func TestRunJSONKeepsWhatIsNotKnown(t *testing.T) {
	in := Run{Identity: Identity{JobID: Some[uint64](12), Node: "n1", Start: started}, Meta: Metadata{JobName: "a", Tags: map[string]string{"k": "v"}}, Ending: Ending{ExitCode: Some[int64](0)}}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Run
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v\nwant %+v", out, in)
	}
	if out.ExitSignal.Valid() || !out.ExitCode.Valid() {
		t.Errorf("exit: %+v %+v", out.ExitCode, out.ExitSignal)
	}
}

func TestMetadata(t *testing.T) {
	var m Metadata
	for _, name := range MetadataFields {
		p := m.Field(name)
		if p == nil {
			t.Fatalf("no field %s", name)
		}
		*p = name
	}
	if m.Field("tags") != nil || m.Field("") != nil {
		t.Error("an unknown name has a field")
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range MetadataFields {
		if got[name] != name {
			t.Errorf("JSON name %s holds %q", name, got[name])
		}
	}

	m = Metadata{JobName: "old", Team: "t", Tags: map[string]string{"a": "1", "b": "2"}}
	m.Merge(Metadata{JobName: "new", Tags: map[string]string{"b": "3"}})
	if want := (Metadata{JobName: "new", Team: "t", Tags: map[string]string{"a": "1", "b": "3"}}); !reflect.DeepEqual(m, want) {
		t.Errorf("merged %+v, want %+v", m, want)
	}
	var empty Metadata
	empty.Merge(Metadata{Tags: map[string]string{"k": "v"}})
	if empty.Tags["k"] != "v" {
		t.Errorf("tags of an empty one: %v", empty.Tags)
	}
}

func TestApplyKeepsAnEarlierEnd(t *testing.T) {
	e := Exit{Code: Some[int64](7), Signal: Some[int64](0), Outcome: OutcomeFailed, Source: "epilog", Time: started}
	var r Run
	r.Apply(e)
	if r.ExitCode != e.Code || r.Outcome != OutcomeFailed || !r.End.Equal(started) {
		t.Errorf("%+v", r)
	}
	earlier := started.Add(-time.Second)
	r = Run{Ending: Ending{End: earlier}}
	r.Apply(e)
	if !r.End.Equal(earlier) {
		t.Errorf("End = %v, want %v", r.End, earlier)
	}
}

func TestStoredNumbersHaveNames(t *testing.T) {
	for i, want := range []string{"tick", "first", "appeared", "last", "stop", "unknown"} {
		if got := Reason(i).String(); got != want {
			t.Errorf("Reason(%d) = %s, want %s", i, got, want)
		}
	}
	for i, want := range []string{"none", "pending", "present", "gone", "unknown"} {
		if got := JobPhase(i).String(); got != want {
			t.Errorf("JobPhase(%d) = %s, want %s", i, got, want)
		}
	}
}
