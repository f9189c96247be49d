package rt_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// machine is a reading with that many of everything. odd marks what comes and goes: an offline CPU, a file system
// that is not mounted.
func machine(sec int64, n int) *rt.Snapshot {
	s := &rt.Snapshot{Wall: sec * 1e9, Boot: sec * 1e9}
	v := uint64(sec) * 100
	for i := range n {
		name := string(rune('a' + i))
		if i != int(sec)%3 {
			s.CPUs = append(s.CPUs, rt.CPUReading{CPU: i, Times: rt.CPUTimes{User: v, Idle: v}})
			s.Mounts = append(s.Mounts, rt.MountReading{Disk: name, MountPoint: "/" + name, Total: 2, Used: 1})
		}
		s.Nets = append(s.Nets, rt.NetReading{Name: name, RxBytes: rt.Some(v), TxBytes: rt.Some(v)})
		s.Disks = append(s.Disks, rt.DiskReading{Name: name, ReadBytes: rt.Some(v), WriteBytes: rt.Some(v)})
		s.GPUs = append(s.GPUs, rt.GPUReading{UUID: name, Utilization: rt.Some(1.0)})
	}
	return s
}

// A sample in used memory is the same as one in new memory, whatever came and went.
func TestDeriveInUsedMemory(t *testing.T) {
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	var used rt.Sample
	prev := machine(1, 3)
	for i, n := range []int{3, 5, 0, 2, 4, 4, 1} {
		cur := machine(int64(i)+2, n)
		used.JobName.Set("of the sample before")
		used.Derive(prev, cur, rt.ScopeNode)
		if diff := cmp.Diff(rt.Derive(prev, cur, rt.ScopeNode), used, all); diff != "" {
			t.Errorf("%d: -new +used:\n%s", n, diff)
		}
		prev = cur
	}
}

// A day of samples leaves nothing behind.
func TestDeriveAllocatesNothing(t *testing.T) {
	var s rt.Sample
	prev, cur := machine(1, 4), machine(2, 4)
	s.Derive(prev, cur, rt.ScopeNode)
	if n := testing.AllocsPerRun(20, func() { s.Derive(prev, cur, rt.ScopeNode) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
