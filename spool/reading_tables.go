package spool

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	"github.com/resource-tracker/rt"
)

// listTable describes how the elements of one list of a snapshot are stored: the identity of an
// element in a table of its own, and its values in a table of readings.
type listTable[T any] struct {
	name string                  // of the table of identities
	from readings                // the table of readings
	list func(*rt.Snapshot) *[]T // the list
	same func(a, b *T) bool
}

// storedList is a listTable of any type.
type storedList interface {
	writer(c *conn, counts *[numReadings]deviceCount) listWriter
	reader(ctx context.Context, c deviceSource, from *keyframe) (listReader, error)
}

func listOf[T comparable](name string, from readings, list func(*rt.Snapshot) *[]T) storedList {
	return &listTable[T]{name, from, list, func(a, b *T) bool { return *a == *b }}
}

// storedLists are all lists except the CPUs, which are in core_ticks.
var storedLists = [...]storedList{
	netList,
	listOf("disk", ofDevice, func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }),
	listOf("mount", ofDevice, func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }),
	listOf("step", readings{readingsOfSteps, "step"}, func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }),
	listOf("process", readings{readingsOfProcesses, "process"}, func(s *rt.Snapshot) *[]rt.ProcessReading { return &s.Procs }),
	gpuProcessList,
	listOf("fabric", ofCounter, func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }),
	listOf("remote_fs", ofCounter, func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }),
	listOf("energy", ofCounter, func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }),
	listOf("perf", ofCounter, func(s *rt.Snapshot) *[]rt.PerfReading { return &s.Perf }),
	gpuList,
}

var gpuProcessList = listOf("gpu_process", ofCounter, func(s *rt.Snapshot) *[]rt.GPUProcessReading { return &s.GPUProcesses })

var netList = listOf("net", ofDevice, func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets })

var gpuList storedList = &listTable[rt.GPUReading]{"gpu", readings{readingsOfGPUs, "gpu"}, func(s *rt.Snapshot) *[]rt.GPUReading { return &s.GPUs }, sameGPU}

// sameGPU compares GPUs, which have a map.
func sameGPU(a, b *rt.GPUReading) bool {
	x, y := *a, *b
	x.Detail, y.Detail = nil, nil
	return reflect.DeepEqual(x, y) && maps.Equal(a.Detail, b.Detail)
}

// The tables of readings.
const (
	readingsOfDevices = iota
	readingsOfGPUs
	readingsOfCounters
	readingsOfSteps
	readingsOfProcesses
	numReadings
)

// readingTables lists their names and the columns of keyframe that hold their last rows.
var readingTables = [numReadings]struct{ name, keyframe string }{
	{"device_reading", "device_row"}, {"gpu_reading", "gpu_row"}, {"counter_value", "counter_row"},
	{"step_value", "step_row"}, {"process_value", "process_row"},
}

// readings is a table of readings and its column that refers to the table of identities.
type readings struct {
	table  int
	column string
}

// Several lists share these tables. Their columns of values are value1, value2, and so on.
var (
	ofDevice  = readings{readingsOfDevices, "device"}
	ofCounter = readings{readingsOfCounters, "device"}
)

// columns lists the columns that hold an element.
func (t *listTable[T]) columns(element *T) (identity, values []column) {
	shared := t.from.table == readingsOfDevices || t.from.table == readingsOfCounters
	for _, f := range any(element).(interface{ Fields() []rt.Field }).Fields() {
		c := column{f.Column(), f.At}
		if f.Unit == rt.KiB {
			c.field = inKiB{f.At.(*rt.Opt[uint64])}
		}
		switch {
		case f.Role != rt.Value:
			identity = append(identity, c)
			continue
		case shared:
			c.name = fmt.Sprintf("value%d", len(values)+1)
		}
		values = append(values, c)
	}
	return identity, values
}

// clearFields makes the fields of values absent.
func clearFields(values []column) {
	for _, c := range values {
		switch p := c.field.(type) {
		case *rt.Opt[uint64]:
			p.Clear()
		case inKiB:
			p.Clear()
		case *rt.Opt[float64]:
			p.Clear()
		case *uint64:
			*p = 0
		case *bool:
			*p = false
		}
	}
}
