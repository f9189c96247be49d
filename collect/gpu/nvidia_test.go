//go:build cgo

package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

const gib = 1 << 30

// server is NVML as a node shows it: go-nvml's DGX, with what it leaves out. For an
// H100 it is given the names and sizes of one: this version has no other server.
type server struct {
	*dgxa100.Server
	devices []*mock.Device
	lacks   map[string]bool // functions of newer libraries
	inits   int
	closes  int
}

// model has the differences between the GPUs of servers.
type model struct {
	name             string
	memory           uint64
	cores            int
	busy, temp, watt uint32
	mhz              uint32
}

var (
	a100 = model{"NVIDIA A100-SXM4-40GB", 40 * gib, 6912, 50, 41, 251, 1410}
	h100 = model{"NVIDIA H100 80GB HBM3", 80 * gib, 16896, 100, 66, 698, 1980}
)

// newServer is a node with count GPUs of a model, 8 at most, each using index+1 GiB.
func newServer(count int, m model) *server {
	s := &server{Server: dgxa100.New(), lacks: map[string]bool{}}
	s.DriverVersion, s.NvmlVersion, s.CudaDriverVersion = "570.86.15", "12.570.86.15", 12080
	for i := range count {
		d := s.Devices[i].(*dgxa100.Device)
		d.UUID, d.Name, d.MemoryInfo = fmt.Sprintf("GPU-%04d", i), m.name, nvml.Memory{Total: m.memory, Used: uint64(i+1)*gib + gib/2}
		measure(&d.Device, i, m)
		s.devices = append(s.devices, &d.Device)
	}
	s.InitFunc = func() nvml.Return { s.inits++; return nvml.SUCCESS }
	s.ShutdownFunc = func() nvml.Return { s.closes++; return nvml.SUCCESS }
	s.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
			if s.lacks[name] {
				return errors.New("no such symbol")
			}
			return nil
		}}
	}
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return len(s.devices), nvml.SUCCESS }
	return s
}

// measure adds what go-nvml's device does not say.
func measure(d *mock.Device, i int, m model) {
	d.GetNumGpuCoresFunc = func() (int, nvml.Return) { return m.cores, nvml.SUCCESS }
	d.GetPciInfoFunc = func() (p nvml.PciInfo, _ nvml.Return) {
		copy(p.BusId[:], fmt.Sprintf("00000000:%02X:00.0", i+1))
		return p, nvml.SUCCESS
	}
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: m.busy}, nvml.SUCCESS }
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: m.memory, Used: uint64(i+1) * gib, Reserved: gib / 2}, nvml.SUCCESS
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return m.temp, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return m.watt*1000 + 500, nvml.SUCCESS }
	d.GetSamplesFunc = func(nvml.SamplingType, uint64) (nvml.ValueType, []nvml.Sample, nvml.Return) {
		return 0, nil, nvml.ERROR_NOT_SUPPORTED
	}
	unaccounted(d)
	used := uint64(i+1) * 1_000_000
	d.GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { used += uint64(i+1) * 500; return used, nvml.SUCCESS }
	d.GetClockInfoFunc = func(c nvml.ClockType) (uint32, nvml.Return) {
		if c != nvml.CLOCK_GRAPHICS {
			return 0, nvml.ERROR_INVALID_ARGUMENT
		}
		return m.mhz, nvml.SUCCESS
	}
}

// unaccounted is a device without accounting, graphics and MPS.
func unaccounted(d *mock.Device) {
	d.GetAccountingModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	d.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
}

// partition turns MIG on, with instances of 5 GiB that use 1 MiB each, under these numbers.
func partition(d *mock.Device, uuid string, instances ...int) {
	d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	there := map[int]*mock.Device{}
	for _, i := range instances {
		m := &mock.Device{}
		unaccounted(m)
		m.GetUUIDFunc = func() (string, nvml.Return) { return fmt.Sprintf("MIG-%s-%d", uuid, i), nvml.SUCCESS }
		m.GetNameFunc = func() (string, nvml.Return) { return a100.name + " MIG 1g.5gb", nvml.SUCCESS }
		m.GetGpuInstanceIdFunc = func() (int, nvml.Return) { return i + 7, nvml.SUCCESS }
		m.GetComputeInstanceIdFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
		m.GetAttributesFunc = func() (nvml.DeviceAttributes, nvml.Return) {
			return nvml.DeviceAttributes{GpuInstanceSliceCount: 2, ComputeInstanceSliceCount: 1}, nvml.SUCCESS
		}
		m.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 5 * gib, Used: 1 << 20}, nvml.SUCCESS
		}
		there[i] = m
	}
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if m := there[i]; m != nil {
			return m, nvml.SUCCESS
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
}

// source is the source of a server's node.
func (s *server) source(t testing.TB, options ...Option) *Source {
	src := with(&nvidia{lib: s})
	src.maxWait = ample
	for _, o := range options {
		o(src)
		src.drivers[0].drv.(*nvidia).processes = src.processes
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

// fixtures are sources of nodes with GPUs.
func fixtures(t *testing.T) map[string]*Source {
	mig := newServer(8, a100)
	partition(mig.devices[7], "x", 0, 2)
	return map[string]*Source{
		"8 A100":             newServer(8, a100).source(t),
		"4 H100":             newServer(4, h100).source(t),
		"8 A100, one in MIG": mig.source(t),
		"AMD":                open(t, t.TempDir(), amdNode(t)),
	}
}

func read(t testing.TB, src *Source) *rt.Snapshot {
	t.Helper()
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestNVIDIA(t *testing.T) {
	for _, tc := range []struct {
		count    int
		m        model
		last     rt.GPUReading
		usage    float64
		vram     uint64
		utilized uint64
	}{
		{8, a100, rt.GPUReading{
			UUID: "GPU-0007", Name: "NVIDIA A100-SXM4-40GB", Type: "GPU", Host: "7",
			Utilization: rt.Some(50.0), VRAMTotal: rt.Some[uint64](40 * gib), VRAMUsed: rt.Some[uint64](8 * gib),
			Temperature: rt.Some[uint64](41), Power: rt.Some(251.5), Frequency: rt.Some[uint64](1410), Cores: rt.Some[uint64](6912),
			Detail: map[string]string{"pci_bus_id": "00000000:08:00.0", "minor_number": "7",
				"driver_version": "570.86.15", "nvml_version": "12.570.86.15", "cuda_version": "12.8"},
		}, 4, 36 * gib, 8},
		{4, h100, rt.GPUReading{
			UUID: "GPU-0003", Name: "NVIDIA H100 80GB HBM3", Type: "GPU", Host: "3",
			Utilization: rt.Some(100.0), VRAMTotal: rt.Some[uint64](80 * gib), VRAMUsed: rt.Some[uint64](4 * gib),
			Temperature: rt.Some[uint64](66), Power: rt.Some(698.5), Frequency: rt.Some[uint64](1980), Cores: rt.Some[uint64](16896),
			Detail: map[string]string{"pci_bus_id": "00000000:04:00.0", "minor_number": "3",
				"driver_version": "570.86.15", "nvml_version": "12.570.86.15", "cuda_version": "12.8"},
		}, 4, 10 * gib, 4},
	} {
		t.Run(tc.m.name, func(t *testing.T) {
			srv := newServer(tc.count, tc.m)
			src := srv.source(t)
			for range 2 {
				s := read(t, src)
				if len(s.GPUs) != tc.count {
					t.Fatalf("%d devices", len(s.GPUs))
				}
				if diff := cmp.Diff(tc.last, s.GPUs[tc.count-1], insides); diff != "" {
					t.Error(diff)
				}
				wantSums(t, &s.Node, rt.Some(tc.usage), rt.Some(tc.vram), rt.Some(tc.utilized))
			}
			if n := len(srv.devices[0].GetUUIDCalls()); n != 1 {
				t.Errorf("what does not change was asked for %d times", n)
			}
			if err := src.Close(); err != nil || srv.inits != 1 || srv.closes != 1 {
				t.Errorf("%v: opened %d times, closed %d times", err, srv.inits, srv.closes)
			}
		})
	}
}

func TestMIG(t *testing.T) {
	srv := newServer(2, a100)
	partition(srv.devices[1], "x", 0, 3)
	s := read(t, srv.source(t))
	parent := rt.GPUReading{
		UUID: "GPU-0001", Name: "NVIDIA A100-SXM4-40GB", Type: "GPU", Host: "1",
		Temperature: rt.Some[uint64](41), Power: rt.Some(251.5), Frequency: rt.Some[uint64](1410), Cores: rt.Some[uint64](6912),
		Detail: map[string]string{"pci_bus_id": "00000000:02:00.0", "minor_number": "1", "mig_mode": "enabled",
			"driver_version": "570.86.15", "nvml_version": "12.570.86.15", "cuda_version": "12.8"},
	}
	instance := func(number, id string) rt.GPUReading {
		return rt.GPUReading{
			UUID: "MIG-x-" + number, Name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", Type: "GPU", Host: "1:" + number,
			VRAMTotal: rt.Some[uint64](5 * gib), VRAMUsed: rt.Some[uint64](1 << 20),
			Detail: map[string]string{"pci_bus_id": "00000000:02:00.0", "parent_uuid": "GPU-0001",
				"gpu_instance_id": id, "compute_instance_id": "0", "mig_compute_slices": "1/7",
				"driver_version": "570.86.15", "nvml_version": "12.570.86.15", "cuda_version": "12.8"},
		}
	}
	want := []rt.GPUReading{parent, instance("0", "7"), instance("3", "10")}
	if diff := cmp.Diff(want, s.GPUs[1:], insides); diff != "" {
		t.Error(diff)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.Some[uint64](gib+2<<20), rt.None[uint64]())
	if n := s.Node.GPUs; n != rt.Some[uint64](2) {
		t.Errorf("%v GPUs", n)
	}
}

// Where all is in MIG mode nothing reports utilization, which is not the same as none.
func TestMIGEverywhere(t *testing.T) {
	srv := newServer(1, a100)
	partition(srv.devices[0], "x", 1)
	s := read(t, srv.source(t))
	wantSums(t, &s.Node, rt.None[float64](), rt.Some[uint64](1<<20), rt.None[uint64]())
}

// A destroyed instance fails once; then the list is made again.
func TestMIGChanges(t *testing.T) {
	srv := newServer(1, a100)
	partition(srv.devices[0], "x", 1)
	src := srv.source(t)
	read(t, src)
	dev, _ := srv.devices[0].GetMigDeviceHandleByIndex(1)
	dev.(*mock.Device).GetMemoryInfo_v2Func = func() (m nvml.Memory_v2, _ nvml.Return) { return m, nvml.ERROR_INVALID_ARGUMENT }
	partition(srv.devices[0], "y", 4, 5)
	var s rt.Snapshot
	if err := src.Read(&s); err == nil || s.Node.GPUVRAMUsed.Valid() {
		t.Errorf("an instance that is gone: %v, %v", err, s.Node.GPUVRAMUsed)
	}
	got := read(t, src)
	if len(got.GPUs) != 3 || got.GPUs[1].UUID != "MIG-y-4" || got.GPUs[2].UUID != "MIG-y-5" {
		t.Errorf("the new instances: %+v", got.GPUs)
	}
}

// A value that a model does not have is absent, and no error.
func TestUnsupportedValues(t *testing.T) {
	srv := newServer(2, a100)
	d := srv.devices[0]
	d.GetNumGpuCoresFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetUtilizationRatesFunc = func() (u nvml.Utilization, _ nvml.Return) { return u, nvml.ERROR_NOT_SUPPORTED }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetMemoryInfo_v2Func = func() (m nvml.Memory_v2, _ nvml.Return) { return m, nvml.ERROR_NOT_SUPPORTED }
	s := read(t, srv.source(t))
	if g := s.GPUs[0]; g.Cores.Valid() || g.Utilization.Valid() || g.Power.Valid() || !g.Temperature.Valid() {
		t.Errorf("%+v", g)
	}
	if v := s.GPUs[0].VRAMUsed.Or(0); v != gib+gib/2 {
		t.Errorf("the older function's memory was not taken: %d", v)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.Some[uint64](3*gib+gib/2), rt.None[uint64]())
}

// A function that the library lacks would end the process: none such is called.
func TestOldLibrary(t *testing.T) {
	srv := newServer(1, a100)
	d := srv.devices[0]
	srv.lacks = map[string]bool{"nvmlSystemGetCudaDriverVersion": true, "nvmlDeviceGetNumGpuCores": true, "nvmlDeviceGetMigMode": true,
		"nvmlDeviceGetMemoryInfo_v2": true, "nvmlDeviceGetProcessUtilization": true}
	srv.SystemGetCudaDriverVersionFunc, d.GetNumGpuCoresFunc, d.GetMigModeFunc, d.GetMemoryInfo_v2Func = nil, nil, nil, nil // a call panics
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 7}}, nvml.SUCCESS }
	s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(7)})))
	if g := s.GPUs[0]; g.VRAMUsed.Or(0) != gib+gib/2 || g.Cores.Valid() || g.Detail["cuda_version"] != "" {
		t.Errorf("%+v", g)
	}
	if p := s.GPUProcesses; len(p) != 1 || p[0].Utilization.Valid() || s.GPU.Usage.Valid() {
		t.Errorf("%+v, %+v", p, s.GPU)
	}
}

// Nonsense is no value.
func TestNonsense(t *testing.T) {
	srv := newServer(1, a100)
	d := srv.devices[0]
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 1 << 31}, nvml.SUCCESS }
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{Total: 1, Used: 2}, nvml.SUCCESS }
	var s rt.Snapshot
	if err := srv.source(t).Read(&s); err == nil || s.GPUs[0].Utilization.Valid() || s.GPUs[0].VRAMUsed.Valid() {
		t.Errorf("%v, %+v", err, s.GPUs)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
}

// A value that cannot be read costs itself, and its sum.
func TestFailedValue(t *testing.T) {
	for _, tc := range []struct {
		ret  nvml.Return
		kind error
	}{{nvml.ERROR_UNKNOWN, nvml.ERROR_UNKNOWN}, {nvml.ERROR_TIMEOUT, nvml.ERROR_TIMEOUT}, {nvml.ERROR_NO_PERMISSION, fs.ErrPermission}} {
		srv := newServer(2, a100)
		srv.devices[1].GetUtilizationRatesFunc = func() (u nvml.Utilization, _ nvml.Return) { return u, tc.ret }
		var s rt.Snapshot
		err := srv.source(t).Read(&s)
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), "GPU-0001") || !strings.Contains(err.Error(), "utilization") {
			t.Errorf("%v: the error is %v", tc.ret, err)
		}
		if s.GPUs[1].Utilization.Valid() || !s.GPUs[1].Power.Valid() || !s.GPUs[0].Utilization.Valid() {
			t.Errorf("%v: %+v", tc.ret, s.GPUs)
		}
		wantSums(t, &s.Node, rt.None[float64](), rt.Some[uint64](3*gib), rt.None[uint64]())
	}
}

// A GPU that falls off the bus stays in the list without values, and is not asked again for
// a minute. It is back when it answers then.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(3, a100)
		src := srv.source(t)
		defer src.Close()
		read(t, src)
		d := srv.devices[1]
		works, handle := d.GetTemperatureFunc, srv.DeviceGetHandleByIndexFunc
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
		srv.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
			if i == 1 {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return handle(i)
		}
		calls := len(d.GetUtilizationRatesCalls())
		var s rt.Snapshot
		for i := range 13 { // beyond the next list
			s.Node = rt.NodeReading{}
			err := src.Read(&s)
			if !errors.Is(err, nvml.ERROR_GPU_IS_LOST) || !strings.Contains(err.Error(), "00000000:02:00.0") {
				t.Fatalf("reading %d: the error is %v", i, err)
			}
			if len(s.GPUs) != 3 || s.GPUs[1].UUID != "GPU-0001" || s.GPUs[1].VRAMTotal.Or(0) != 40*gib {
				t.Fatalf("reading %d: %+v", i, s.GPUs)
			}
			if g := s.GPUs[1]; g.Utilization.Valid() || g.VRAMUsed.Valid() || g.Power.Valid() {
				t.Errorf("reading %d: values of a lost GPU: %+v", i, g)
			}
			wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
			time.Sleep(10 * time.Second)
		}
		if n := len(d.GetUtilizationRatesCalls()) - calls; n != 1 {
			t.Errorf("the lost GPU was asked %d times", n)
		}
		d.GetTemperatureFunc, srv.DeviceGetHandleByIndexFunc = works, handle
		time.Sleep(lookAgain)
		if s := read(t, src); !s.GPUs[1].Temperature.Valid() {
			t.Errorf("it is back: %+v", s.GPUs[1])
		}
	})
}

// A GPU about which nothing was ever known is an error, and no device.
func TestNoHandle(t *testing.T) {
	srv := newServer(2, a100)
	handle := srv.DeviceGetHandleByIndexFunc
	srv.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 0 {
			return nil, nvml.ERROR_NO_PERMISSION
		}
		return handle(i)
	}
	var s rt.Snapshot
	if err := srv.source(t).Read(&s); !errors.Is(err, fs.ErrPermission) || len(s.GPUs) != 1 || s.GPUs[0].Host != "1" {
		t.Errorf("%v, %+v", err, s.GPUs)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
	if s.Node.GPUs.Valid() {
		t.Errorf("%v GPUs", s.Node.GPUs)
	}
}

func TestNoDevices(t *testing.T) {
	s := read(t, newServer(0, a100).source(t))
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
	if n := s.Node.GPUs; n != rt.Some[uint64](0) {
		t.Errorf("%v GPUs", n)
	}
}

// An error of starting NVML is the status of the sensor; the next attempt is a minute later.
func TestInitFails(t *testing.T) {
	for _, tc := range []struct {
		ret  nvml.Return
		kind error
		says string
	}{
		{nvml.ERROR_LIBRARY_NOT_FOUND, fs.ErrNotExist, "libnvidia-ml.so.1"},
		{nvml.ERROR_DRIVER_NOT_LOADED, fs.ErrNotExist, "kernel module is not loaded"},
		{nvml.ERROR_LIB_RM_VERSION_MISMATCH, nvml.ERROR_LIB_RM_VERSION_MISMATCH, "different versions"},
		{nvml.ERROR_NO_PERMISSION, fs.ErrPermission, "initialize"},
		{nvml.ERROR_UNKNOWN, nvml.ERROR_UNKNOWN, "initialize"},
	} {
		t.Run(tc.ret.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(1, a100)
				works := srv.InitFunc
				inits := 0
				srv.InitFunc = func() nvml.Return { inits++; return tc.ret }
				src := srv.source(t)
				defer src.Close()
				var s rt.Snapshot
				for range 5 {
					err := src.Read(&s)
					if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("the error is %v", err)
					}
					if len(s.GPUs) != 0 {
						t.Errorf("devices: %+v", s.GPUs)
					}
					wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
				}
				if inits != 1 {
					t.Errorf("it was tried %d times at once", inits)
				}
				srv.InitFunc = works
				time.Sleep(lookAgain)
				if s := read(t, src); len(s.GPUs) != 1 {
					t.Errorf("the driver is back: %+v", s.GPUs)
				}
			})
		})
	}
}

// A call into NVML that never returns loses the values of its devices, and delays one reading.
func TestNVMLHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(2, a100)
		src := srv.source(t)
		src.maxWait = maxWait
		read(t, src)
		release := make(chan struct{})
		works := srv.devices[1].GetPowerUsageFunc
		srv.devices[1].GetPowerUsageFunc = func() (uint32, nvml.Return) { <-release; return works() }
		var s rt.Snapshot
		for _, wait := range []time.Duration{maxWait, 0, 0} {
			begun := time.Now()
			if err := src.Read(&s); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != wait {
				t.Errorf("%v after %s", err, time.Since(begun))
			}
			if len(s.GPUs) != 2 || s.GPUs[0].Utilization.Valid() || s.GPUs[1].Name != a100.name {
				t.Errorf("%+v", s.GPUs)
			}
			time.Sleep(time.Second)
		}
		if n := len(srv.devices[1].GetPowerUsageCalls()); n != 2 {
			t.Errorf("NVML was called %d times", n)
		}
		close(release)
		synctest.Wait()
		if s := read(t, src); !s.GPUs[1].Power.Valid() {
			t.Errorf("%+v", s.GPUs)
		}
		src.Close()
	})
}

// Without the library nothing is printed: not by the loader, not by the binding.
func TestNoLibrary(t *testing.T) {
	const name = "RT_TEST_NO_LIBRARY"
	if os.Getenv(name) != "" {
		src := with(&nvidia{lib: nvml.New(nvml.WithLibraryPath("libnvidia-ml-of-no-machine.so.1"))})
		src.maxWait = ample
		defer src.Close()
		var s rt.Snapshot
		if err := src.Read(&s); !errors.Is(err, fs.ErrNotExist) || len(s.GPUs) != 0 {
			t.Errorf("%v, %+v", err, s.GPUs)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestNoLibrary$", "-test.v=false")
	cmd.Env = append(os.Environ(), name+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "PASS\n") || strings.Count(string(out), "\n") > 2 { // a line of coverage may follow
		t.Errorf("%v, and it printed:\n%s", err, out)
	}
}

// NVIDIA's device file is what has NVML loaded.
func TestDeviceFile(t *testing.T) {
	for _, have := range []bool{false, true} {
		dir := t.TempDir()
		if have {
			dir = touch(t, "nvidiactl")
		}
		src := open(t, dir, dir)
		src.find()
		if have != (len(src.drivers) == 1 && src.drivers[0].drv.vendor() == "NVIDIA") {
			t.Errorf("with it %v: %v", have, src.drivers)
		}
	}
}
