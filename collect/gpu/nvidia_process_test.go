//go:build cgo

package gpu

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

func running(d *mock.Device, infos ...nvml.ProcessInfo) {
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return infos, nvml.SUCCESS }
}

// pids is the list of a job's processes.
func pids(list ...int) func([]int) []int {
	return func(dst []int) []int { return append(dst, list...) }
}

func TestProcesses(t *testing.T) {
	srv := newServer(3, a100)
	running(srv.devices[0], nvml.ProcessInfo{Pid: 10, UsedGpuMemory: 5 << 20}, nvml.ProcessInfo{Pid: 11, UsedGpuMemory: math.MaxUint64})
	var since []uint64
	srv.devices[0].GetProcessUtilizationFunc = func(last uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		since = append(since, last)
		if last > 0 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return []nvml.ProcessUtilizationSample{
			{Pid: 10, TimeStamp: 2000, SmUtil: 75}, {Pid: 10, TimeStamp: 1000, SmUtil: 5}, {Pid: 12, TimeStamp: 3000, SmUtil: 9},
		}, nvml.SUCCESS
	}
	running(srv.devices[1])
	partition(srv.devices[2], "x", 1)
	instance, _ := srv.devices[2].GetMigDeviceHandleByIndex(1)
	running(instance.(*mock.Device), nvml.ProcessInfo{Pid: 13, UsedGpuMemory: 7})
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(13, 11, 10, 9)}))

	s := read(t, src)
	memory := rt.Some[uint64](5 << 20)
	want := []rt.GPUProcessReading{
		{PID: 10, UUID: "GPU-0000", VRAMUsed: memory, Utilization: rt.Some(75.0)},
		{PID: 11, UUID: "GPU-0000", Utilization: rt.Some(0.0)},
		{PID: 13, UUID: "MIG-x-1", VRAMUsed: rt.Some[uint64](7)},
	}
	if diff := cmp.Diff(want, s.GPUProcesses, insides); diff != "" {
		t.Error(diff)
	}
	s = read(t, src) // no sample since the newest one: idle
	want[0].Utilization = rt.Some(0.0)
	if diff := cmp.Diff(want, s.GPUProcesses, insides); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint64{0, 3000}, since); diff != "" {
		t.Errorf("samples were asked for since (-want +got):\n%s", diff)
	}
}

// Processes that cannot be listed cost nothing else.
func TestProcessesFail(t *testing.T) {
	srv := newServer(1, a100)
	d := srv.devices[0]
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(1)}))
	var s rt.Snapshot
	if err := src.Read(&s); err == nil || len(s.GPUProcesses) != 0 || s.GPU.Usage.Valid() || s.GPU.VRAMUsed.Valid() {
		t.Errorf("%v, %v, %v", err, s.GPUProcesses, s.GPU)
	}
	wantSums(t, &s.Node, rt.Some(0.5), rt.Some[uint64](gib), rt.Some[uint64](1))

	running(d, nvml.ProcessInfo{Pid: 1, UsedGpuMemory: 1})
	d.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	if p := read(t, src).GPUProcesses; len(p) != 1 || p[0].Utilization.Valid() || p[0].VRAMUsed.Or(0) != 1 {
		t.Errorf("%+v", p)
	}
}

// Without WithProcesses the processes are not read.
func TestProcessesAreOptional(t *testing.T) {
	src := newServer(1, a100).source(t) // a call would panic
	if s := read(t, src); len(s.GPUProcesses) != 0 || s.GPU != (rt.GPUUse{}) {
		t.Errorf("%+v, %+v", s.GPUProcesses, s.GPU)
	}
}

// Without a job all processes are listed, and no use is recorded.
func TestAllProcesses(t *testing.T) {
	srv := newServer(1, a100)
	running(srv.devices[0], nvml.ProcessInfo{Pid: 10, UsedGpuMemory: 5})
	srv.devices[0].GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND }
	src := srv.source(t, WithProcesses())
	s := read(t, src)
	want := []rt.GPUProcessReading{{PID: 10, UUID: "GPU-0000", VRAMUsed: rt.Some[uint64](5), Utilization: rt.Some(0.0)}}
	if diff := cmp.Diff(want, src.Processes(), insides); diff != "" {
		t.Error(diff)
	}
	if len(s.GPUProcesses) != 0 || s.GPU != (rt.GPUUse{}) {
		t.Errorf("%+v, %+v", s.GPUProcesses, s.GPU)
	}
}
