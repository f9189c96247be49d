//go:build cgo

package gpu

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// The use of an idle GPU next to a divided one is not the use of both.
func TestIdleNextToMIG(t *testing.T) {
	srv := idle(newServer(2, a100))
	partition(srv.devices[0], "x", 0, 1)
	for i := range 2 {
		instance, _ := srv.devices[0].GetMigDeviceHandleByIndex(i)
		running(instance.(*mock.Device))
	}
	srv.devices[1].GetUtilizationRatesFunc = func() (u nvml.Utilization, _ nvml.Return) { return u, nvml.SUCCESS }
	s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(), Devices: "GPU-0001,MIG-x-0", ByDevice: true})))
	wantSums(t, &s.Node, rt.None[float64](), rt.Some[uint64](2*gib+2<<20), rt.None[uint64]())
	wantUse(t, s.GPU, rt.None[float64](), rt.Some[uint64](2*gib+1<<20), rt.None[uint64]())
}

// Instances that cannot be listed make the sums of the node absent.
func TestMIGNotListed(t *testing.T) {
	srv := newServer(2, a100)
	partition(srv.devices[0], "x", 0)
	srv.devices[0].GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	var s rt.Snapshot
	if err := srv.source(t).Read(&s); err == nil {
		t.Error("no error")
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
}

func listing(infos ...nvml.ProcessInfo) func() ([]nvml.ProcessInfo, nvml.Return) {
	return func() ([]nvml.ProcessInfo, nvml.Return) { return infos, nvml.SUCCESS }
}

func noProcessUse(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
	return nil, nvml.ERROR_NOT_FOUND
}

// The clients of an MPS server are processes of the job. The server is no reason for a
// message, and a client of another job is one.
func TestMPS(t *testing.T) {
	srv := idle(newServer(1, h100))
	d := srv.devices[0]
	d.GetProcessUtilizationFunc = noProcessUse
	running(d, nvml.ProcessInfo{Pid: 50, UsedGpuMemory: 30 << 20})
	d.GetMPSComputeRunningProcessesFunc = listing(nvml.ProcessInfo{Pid: 10, UsedGpuMemory: gib}, nvml.ProcessInfo{Pid: 11, UsedGpuMemory: 2 * gib})
	proc := t.TempDir()
	for pid, comm := range map[string]string{"50": "nvidia-cuda-mps\n", "77": "python\n"} {
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var events ledger
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(10, 11), Devices: "0", ByDevice: true, Event: events.take}))
	src.tracked.proc = proc
	for range 3 {
		s := read(t, src)
		want := []rt.GPUProcessReading{
			{PID: 10, UUID: "GPU-0000", VRAMUsed: rt.Some[uint64](gib), Utilization: rt.Some(0.0)},
			{PID: 11, UUID: "GPU-0000", VRAMUsed: rt.Some[uint64](2 * gib), Utilization: rt.Some(0.0)},
		}
		if diff := cmp.Diff(want, s.GPUProcesses, insides); diff != "" {
			t.Error(diff)
		}
	}
	events.want(t)
	d.GetMPSComputeRunningProcessesFunc = listing(nvml.ProcessInfo{Pid: 10}, nvml.ProcessInfo{Pid: 77})
	read(t, src)
	read(t, src)
	events.want(t, "mismatch: a process that is not of the job")
}

// A process that computes and draws is one process.
func TestGraphics(t *testing.T) {
	srv := idle(newServer(1, h100))
	d := srv.devices[0]
	d.GetProcessUtilizationFunc = noProcessUse
	running(d, nvml.ProcessInfo{Pid: 10, UsedGpuMemory: gib})
	d.GetGraphicsRunningProcessesFunc = listing(nvml.ProcessInfo{Pid: 10, UsedGpuMemory: gib}, nvml.ProcessInfo{Pid: 12, UsedGpuMemory: 5})
	s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(10, 12)})))
	wantUse(t, s.GPU, rt.Some(0.0), rt.Some[uint64](gib+5), rt.Some[uint64](0))
	if len(s.GPUProcesses) != 2 {
		t.Errorf("%+v", s.GPUProcesses)
	}

	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_UNKNOWN }
	var failed rt.Snapshot
	if err := srv.source(t, WithTracked(Tracked{PIDs: pids(10, 12)})).Read(&failed); err == nil || failed.GPU.Valid() {
		t.Errorf("a list that failed: %v, %+v", err, failed.GPU)
	}
}

// sampling makes a device keep samples, of one each sixth of a second from the start of the
// returned clock.
func sampling(d *mock.Device, percent func(i int) uint32) (clock func(time.Duration)) {
	var now time.Duration
	d.GetSamplesFunc = func(of nvml.SamplingType, since uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		if of != nvml.GPU_UTILIZATION_SAMPLES {
			return 0, nil, nvml.ERROR_INVALID_ARGUMENT
		}
		list := []nvml.Sample{}
		for i := range int(now / (time.Second / 6)) {
			s := nvml.Sample{TimeStamp: uint64(i+1) * 1_000_000 / 6}
			binary.NativeEndian.PutUint32(s.SampleValue[:], percent(i))
			if s.TimeStamp > since {
				list = append(list, s)
			}
		}
		if len(list) == 0 {
			return 0, list, nvml.ERROR_NOT_FOUND
		}
		return nvml.VALUE_TYPE_UNSIGNED_INT, append(list, nvml.Sample{}), nvml.SUCCESS // go-nvml does not shorten the list
	}
	return func(d time.Duration) { now += d }
}

// A GPU that works 30 % of the time is 30 % busy, not 100 % or 0.
func TestBusyIsAMean(t *testing.T) {
	srv := newServer(1, a100)
	d := srv.devices[0]
	pass := sampling(d, func(i int) uint32 {
		if i%10 < 3 {
			return 100
		}
		return 0
	})
	pass(20 * time.Second) // before the first reading
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 100}, nvml.SUCCESS }
	src := srv.source(t)
	if s := read(t, src); s.GPUs[0].Utilization != rt.Some(100.0) || s.GPUs[0].Detail[rt.BusyOf] != rt.BusyOfInterval {
		t.Errorf("the first reading: %+v", s.GPUs[0])
	}
	for range 3 {
		pass(10 * time.Second)
		s := read(t, src)
		if busy := s.GPUs[0].Utilization.Or(-1); busy < 29.9 || busy > 30.1 {
			t.Errorf("%v %% busy", busy)
		}
		if usage := s.Node.GPUUsage.Or(-1); usage < 0.299 || usage > 0.301 {
			t.Errorf("%v GPUs", usage)
		}
	}
	d.GetSamplesFunc = func(nvml.SamplingType, uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		return 0, nil, nvml.ERROR_UNKNOWN
	}
	if s := read(t, src); s.GPUs[0].Utilization != rt.Some(100.0) {
		t.Errorf("without samples: %+v", s.GPUs[0])
	}
}

// An empty list that is too small is an idle GPU, not a failure.
func TestZeroSamples(t *testing.T) {
	srv := newServer(1, a100)
	d := srv.devices[0]
	running(d, nvml.ProcessInfo{Pid: 10, UsedGpuMemory: 5})
	d.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		return []nvml.ProcessUtilizationSample{}, nvml.ERROR_INSUFFICIENT_SIZE
	}
	d.GetSamplesFunc = func(nvml.SamplingType, uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		return 0, nil, nvml.ERROR_INSUFFICIENT_SIZE
	}
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(10)}))
	for range 2 {
		s := read(t, src)
		if p := s.GPUProcesses; len(p) != 1 || p[0].Utilization != rt.Some(0.0) || s.GPUs[0].Utilization != rt.Some(50.0) {
			t.Errorf("%+v, %+v", p, s.GPUs)
		}
	}
}

// The driver's accounting has a peak of memory that no reading saw, also of a process that has ended.
func TestAccounting(t *testing.T) {
	srv := newServer(1, h100)
	d := srv.devices[0]
	d.GetProcessUtilizationFunc = noProcessUse
	d.GetAccountingModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	peaks := map[uint32]uint64{10: 20 * gib, 11: 1}
	d.GetAccountingStatsFunc = func(pid uint32) (nvml.AccountingStats, nvml.Return) {
		if peaks[pid] == 0 {
			return nvml.AccountingStats{}, nvml.ERROR_NOT_FOUND
		}
		return nvml.AccountingStats{MaxMemoryUsage: peaks[pid]}, nvml.SUCCESS
	}
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(10)}))
	want := func(vram, peak uint64) {
		t.Helper()
		s := read(t, src)
		if len(s.GPUProcesses) != 1 || s.GPUProcesses[0].VRAMUsed != rt.Some(vram) || s.GPUProcesses[0].VRAMPeak != rt.Some(peak) {
			t.Errorf("%+v, want %d, peak %d", s.GPUProcesses, vram, peak)
		}
		if s.GPU.VRAMUsed != rt.Some(vram) {
			t.Errorf("%+v", s.GPU)
		}
	}
	running(d, nvml.ProcessInfo{Pid: 10, UsedGpuMemory: 20 * gib}, nvml.ProcessInfo{Pid: 11, UsedGpuMemory: 1})
	want(20*gib, 20*gib)
	peaks[10] = 70 * gib
	want(20*gib, 70*gib)
	running(d)
	peaks[10] = 71 * gib
	want(0, 71*gib)
	if s := read(t, src); len(s.GPUProcesses) != 0 {
		t.Errorf("it is shown again: %+v", s.GPUProcesses)
	}
}

// Eight GPUs take longer than a reading waits at first. Their values are of now, not of the reading
// before.
func TestEightGPUsEachTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(8, h100)
		var round atomic.Uint32 // the worker reads it
		for _, d := range srv.devices {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
				time.Sleep(40 * time.Millisecond)
				return nvml.Utilization{Gpu: round.Load()}, nvml.SUCCESS
			}
		}
		src := srv.source(t)
		src.maxWait = maxWait
		defer src.Close()
		var s rt.Snapshot
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(10 * time.Second)
			now := round.Add(1)
			begun := time.Now()
			if err := src.Read(&s); err != nil || s.Node.GPUUsage != rt.Some(float64(8*now)/100) {
				t.Errorf("round %d: %v, %v GPUs", now, err, s.Node.GPUUsage)
			}
			if took := time.Since(begun); took > 8*40*time.Millisecond {
				t.Errorf("the reading took %s", took)
			}
		}
	})
}
