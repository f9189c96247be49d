package rt

import (
	"reflect"
	"testing"
)

// addresses lists the exported fields of a struct that v points to, by name.
func addresses(v any) map[string]any {
	fields := map[string]any{}
	s := reflect.ValueOf(v).Elem()
	for _, f := range reflect.VisibleFields(s.Type()) {
		if f.IsExported() && !f.Anonymous {
			fields[f.Name] = s.FieldByIndex(f.Index).Addr().Interface()
		}
	}
	return fields
}

// missing reports the fields that are neither in a table nor left out on purpose.
func missing(t *testing.T, noun any, listed []any, names []string, leftOut ...string) {
	t.Helper()
	fields := addresses(noun)
	for _, p := range listed {
		found := false
		for name, at := range fields {
			if reflect.ValueOf(at).Pointer() == reflect.ValueOf(p).Pointer() {
				delete(fields, name)
				found = true
			}
		}
		if !found {
			t.Errorf("%T: an accessor returns another field, or one that is listed twice", noun)
		}
	}
	for _, name := range leftOut {
		delete(fields, name)
	}
	for name := range fields {
		t.Errorf("%T: %s is not in its table", noun, name)
	}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			t.Errorf("%T: two columns have the name %s", noun, name)
		}
		seen[name] = true
	}
}

func listed[T any](noun *T, figures []Figure[T, uint64]) (fields []any, names []string) {
	for _, f := range figures {
		fields, names = append(fields, f.Field(noun)), append(names, f.Column("noun"))
	}
	return fields, names
}

// A new field of a reading that is in no table would not be stored.
func TestEveryFigureIsInItsTable(t *testing.T) {
	var s Snapshot
	fields, names := listed(&s.Node, NodeFigures[:])
	missing(t, &s.Node, append(fields, NodeGPUUsage.Field(&s.Node)), names, "CPU", "ReadBoot")
	fields, names = listed(&s.Job, JobFigures[:])
	missing(t, &s.Job, fields, names, "Phase")
	fields, names = listed(&s.Tree, TreeFigures[:])
	missing(t, &s.Tree, fields, names)
	fields, names = listed(&s.GPU, GPUUseFigures[:])
	missing(t, &s.GPU, append(fields, GPUUseUsage.Field(&s.GPU)), names)
	for _, noun := range []interface{ Fields() []Field }{
		&CPUReading{}, &NetReading{}, &DiskReading{}, &MountReading{}, &GPUReading{}, &FabricReading{}, &RemoteFSReading{},
		&StepReading{}, &ProcessReading{}, &GPUProcessReading{}, &EnergyReading{}, &PerfReading{},
	} {
		var fields []any
		var names []string
		for _, f := range noun.Fields() {
			fields, names = append(fields, f.At), append(names, f.Column())
		}
		missing(t, noun, fields, names, "Times")
	}
}

// The sum of two cgroups: counters add up, the higher peak stays, gauges are from the later cgroup.
func TestAddEnded(t *testing.T) {
	some := Some[uint64]
	later := JobReading{CPUUsage: some(5), MemPeak: some(7), MemLimit: some(9), MemCurrent: some(1)}
	later.AddEnded(&JobReading{CPUUsage: some(2), PageFaults: some(3), MemPeak: some(8), MemLimit: some(4), MemCurrent: some(6), Threads: some(2)})
	if want := (JobReading{CPUUsage: some(7), PageFaults: some(3), MemPeak: some(8), MemLimit: some(9), MemCurrent: some(1)}); later != want {
		t.Errorf("%+v, want %+v", later, want)
	}
}
