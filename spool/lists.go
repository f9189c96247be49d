package spool

import (
	"context"
	"reflect"

	"github.com/resource-tracker/rt"
)

// listTable describes how the elements of one list of a snapshot are stored. The table name has the
// identity of an element, the table name_value its values at a snapshot.
type listTable[T any] struct {
	name string
	list func(*rt.Snapshot) *[]T
	same func(a, b *T) bool
}

// storedList is a listTable of any type.
type storedList interface {
	table() string
	values() string
	valueColumns() []string
	writer(c *conn) listWriter
	reader(ctx context.Context, c *conn, of seqRange) (listReader, error)
}

func listOf[T comparable](name string, list func(*rt.Snapshot) *[]T) storedList {
	return &listTable[T]{name, list, func(a, b *T) bool { return *a == *b }}
}

// storedLists are all lists except the CPUs, which are in core_ticks.
var storedLists = [...]storedList{
	netList,
	listOf("disk", func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }),
	listOf("mount", func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }),
	listOf("step", func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }),
	listOf("process", func(s *rt.Snapshot) *[]rt.ProcessReading { return &s.Procs }),
	gpuProcessList,
	listOf("fabric", func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }),
	listOf("remote_fs", func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }),
	listOf("energy", func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }),
	listOf("perf", func(s *rt.Snapshot) *[]rt.PerfReading { return &s.Perf }),
	gpuList,
}

var gpuProcessList = listOf("gpu_process", func(s *rt.Snapshot) *[]rt.GPUProcessReading { return &s.GPUProcesses })

var netList = listOf("net", func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets })

var gpuList storedList = &listTable[rt.GPUReading]{"gpu", func(s *rt.Snapshot) *[]rt.GPUReading { return &s.GPUs }, sameGPU}

// sameGPU compares GPUs, which have a map.
func sameGPU(a, b *rt.GPUReading) bool { return reflect.DeepEqual(a, b) }

func (t *listTable[T]) table() string { return t.name }

// valueSuffix ends the name of a table with values.
const valueSuffix = "_value"

// values is the name of the table with the values.
func (t *listTable[T]) values() string { return t.name + valueSuffix }

// valueColumns lists the columns of the values.
func (t *listTable[T]) valueColumns() []string {
	_, values := t.columns(new(T))
	return columnNamesOf(values)
}

// columns lists the columns that hold an element.
func (t *listTable[T]) columns(element *T) (identity, values []column) {
	for _, f := range any(element).(interface{ Fields() []rt.Field }).Fields() {
		c := column{f.Column(), f.At}
		if f.Unit == rt.KiB {
			c.field = inKiB{f.At.(*rt.Opt[uint64])}
		}
		if f.Role == rt.Value {
			values = append(values, c)
		} else {
			identity = append(identity, c)
		}
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
