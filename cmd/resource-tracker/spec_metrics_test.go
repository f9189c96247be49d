package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// cpusOfThisMachine counts the processors of /proc/cpuinfo, which is host_vcpus.
func cpusOfThisMachine(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b)) {
		if key, _, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "processor" {
			n++
		}
	}
	return n
}

// within fails where a value is absent or out of its range.
func within(t *testing.T, what string, got rt.Opt[float64], low, high float64) {
	t.Helper()
	if v, ok := got.Get(); !ok || !(v >= low && v <= high) {
		t.Errorf("%s is %v (read: %v), want %v to %v", what, v, ok, low, high)
	}
}

// T-CPU-01: utilization_pct is 0 to the number of processors.
func TestT_CPU_01(t *testing.T) {
	t.Parallel()
	n := float64(cpusOfThisMachine(t))
	used := 0.0
	for _, s := range runsOf(t).samples {
		v, ok := s.CPU.UtilizationPct.Get()
		if ok && !(v >= 0 && v <= n) { // absent where the kernel took idle time back
			t.Errorf("utilization_pct is %v, want 0 to %v", v, n)
		}
		used += v
	}
	if used == 0 {
		t.Error("the machine was busy and no processor was used")
	}
}

// T-CPU-02: per_core_pct has a percentage for each processor.
func TestT_CPU_02(t *testing.T) {
	t.Parallel()
	n := cpusOfThisMachine(t)
	for _, s := range runsOf(t).samples {
		if len(s.CPU.PerCorePct) != n {
			t.Errorf("%d processors, want %d", len(s.CPU.PerCorePct), n)
		}
		for i, p := range s.CPU.PerCorePct {
			if v, ok := p.Get(); ok && !(v >= 0 && v <= 100) {
				t.Errorf("processor %d: %v %%", i, v)
			}
		}
	}
}

// T-CPU-03: without --pid there is no figure of a process tree.
func TestT_CPU_03(t *testing.T) {
	t.Parallel()
	for _, line := range runsOf(t).json {
		cpu, _ := object(t, line)["cpu"].(map[string]any)
		for _, key := range []string{"process_cores_used", "process_child_count"} {
			if v, there := cpu[key]; !there || v != nil {
				t.Errorf("%s is %v (there: %v), want null", key, v, there)
			}
		}
	}
}

// T-CPU-04: with --pid of this process, which is busy, process_cores_used is 0 or more.
func TestT_CPU_04(t *testing.T) {
	t.Parallel()
	used, samples := 0.0, runsOf(t).tracked
	for _, s := range samples {
		within(t, "process_cores_used", s.CPU.ProcessCoresUsed, 0, math.MaxFloat64)
		used += s.CPU.ProcessCoresUsed.Or(0)
		if s.CPU.ProcessChildCount.Or(0) < 1 {
			t.Errorf("process_child_count is %v: the program itself is a child", s.CPU.ProcessChildCount)
		}
	}
	if used == 0 || len(samples) < samplesOfARun {
		t.Errorf("%v cores used in %d samples", used, len(samples))
	}
}

// T-CPU-05: there is at least one process.
func TestT_CPU_05(t *testing.T) {
	t.Parallel()
	for _, s := range runsOf(t).samples {
		if s.CPU.ProcessCount.Or(0) < 1 {
			t.Errorf("process_count is %v", s.CPU.ProcessCount)
		}
	}
}

// T-MEM-01: free, used, buffers and cache are no more than all.
func TestT_MEM_01(t *testing.T) {
	t.Parallel()
	for _, s := range runsOf(t).samples {
		m := &s.Memory
		sum := uint64(0)
		for what, v := range map[string]rt.Opt[uint64]{"free_mib": m.FreeMiB, "used_mib": m.UsedMiB, "buffers_mib": m.BuffersMiB, "cached_mib": m.CachedMiB} {
			if !v.Valid() {
				t.Errorf("%s was not read", what)
			}
			sum += v.Or(0)
		}
		if sum > m.TotalMiB.Or(0) {
			t.Errorf("%d MiB of %v", sum, m.TotalMiB)
		}
	}
}

// T-MEM-02: used_pct is a percentage.
func TestT_MEM_02(t *testing.T) {
	t.Parallel()
	for _, s := range runsOf(t).samples {
		within(t, "used_pct", s.Memory.UsedPct, 0, 100)
	}
}

// T-MEM-03: without swap swap_used_pct is 0. The machine of the fixture has none,
// whatever the one that tests has.
func TestT_MEM_03(t *testing.T) {
	t.Parallel()
	without := 0
	for _, s := range append(machineOf(t, "drives").samples(t), runsOf(t).samples...) {
		high := 100.0
		if s.Memory.SwapTotalMiB == rt.Some[uint64](0) {
			high = 0
			without++
		}
		within(t, "swap_used_pct", s.Memory.SwapUsedPct, 0, high)
	}
	if without == 0 {
		t.Error("no sample is of a machine without swap")
	}
}

// T-MEM-04: no more is available than there is.
func TestT_MEM_04(t *testing.T) {
	t.Parallel()
	for _, s := range runsOf(t).samples {
		available, ok := s.Memory.AvailableMiB.Get()
		if !ok || available > s.Memory.TotalMiB.Or(0) {
			t.Errorf("%d MiB of %v (read: %v)", available, s.Memory.TotalMiB, ok)
		}
	}
}

// withNetwork are the samples of this machine, which may have no interface but lo, and of a machine
// with others.
func withNetwork(t *testing.T) [][]rt.Sample {
	t.Helper()
	fixture := machineOf(t, "networks").samples(t)
	if len(fixture[0].Network) == 0 {
		t.Fatal("the fixture shows no interface")
	}
	return [][]rt.Sample{fixture, runsOf(t).samples}
}

// T-NET-01: rates are 0 or more.
func TestT_NET_01(t *testing.T) {
	t.Parallel()
	for _, series := range withNetwork(t) {
		for _, s := range series {
			for _, n := range s.Network {
				if n.RxBytesTotal.Valid() && known(series[0].Network, n.Interface) {
					within(t, n.Interface+" rx_bytes_per_sec", n.RxBytesPerSec, 0, math.MaxFloat64)
					within(t, n.Interface+" tx_bytes_per_sec", n.TxBytesPerSec, 0, math.MaxFloat64)
				}
			}
		}
	}
}

// known says whether the first sample had the interface. An interface that comes while the test
// runs has no rate at first, and other programs may make one.
func known(first []rt.NetMetrics, name string) bool {
	for _, n := range first {
		if n.Interface == name && n.RxBytesPerSec.Valid() {
			return true
		}
	}
	return false
}

// T-NET-02: rx_bytes_total never falls.
func TestT_NET_02(t *testing.T) {
	t.Parallel()
	for _, series := range withNetwork(t) {
		last := map[string]uint64{}
		for _, s := range series {
			for _, n := range s.Network {
				v, ok := n.RxBytesTotal.Get()
				if !ok || v < last[n.Interface] {
					t.Errorf("%s: %d follows %d (read: %v)", n.Interface, v, last[n.Interface], ok)
				}
				last[n.Interface] = v
			}
		}
	}
}

// T-NET-03: lo is not shown.
func TestT_NET_03(t *testing.T) {
	t.Parallel()
	for _, series := range withNetwork(t) {
		for _, s := range series {
			for _, n := range s.Network {
				if n.Interface == "lo" {
					t.Error("lo is shown")
				}
			}
		}
	}
}

// withDisks are the samples of this machine, which may show no disk, and of a machine with several
// disks. One of them has the space of this machine's root.
func withDisks(t *testing.T) []rt.Sample {
	t.Helper()
	return append(machineOf(t, "drives").samples(t), runsOf(t).samples...)
}

// T-DSK-01: rates are 0 or more.
func TestT_DSK_01(t *testing.T) {
	t.Parallel()
	n := 0
	for _, s := range withDisks(t) {
		for _, d := range s.Disk {
			n++
			within(t, d.Device+" read_bytes_per_sec", d.ReadBytesPerSec, 0, math.MaxFloat64)
			within(t, d.Device+" write_bytes_per_sec", d.WriteBytesPerSec, 0, math.MaxFloat64)
		}
	}
	if n == 0 {
		t.Error("no disk is shown")
	}
}

// T-DSK-02: what is used and what is available is no more than all.
func TestT_DSK_02(t *testing.T) {
	t.Parallel()
	n := 0
	for _, s := range withDisks(t) {
		for _, d := range s.Disk {
			for _, m := range d.Mounts {
				n++
				if m.TotalBytes == 0 || m.UsedBytes+m.AvailableBytes > m.TotalBytes {
					t.Errorf("%s: %d used, %d available, of %d", m.MountPoint, m.UsedBytes, m.AvailableBytes, m.TotalBytes)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no mount is shown")
	}
}

// T-DSK-03: a capacity that is known is not 0.
func TestT_DSK_03(t *testing.T) {
	t.Parallel()
	n := 0
	for _, s := range withDisks(t) {
		for _, d := range s.Disk {
			if v, ok := d.CapacityBytes.Get(); ok {
				n++
				if v == 0 {
					t.Errorf("%s has a capacity of 0", d.Device)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no capacity is known")
	}
}
