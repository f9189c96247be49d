package sonar

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
)

func TestRollUp(t *testing.T) {
	on := func(gpus ...uint32) GPUSet { return GPUSet{Indices: gpus} }
	list := []process{
		{Sample{User: "a", Cmd: "mpi", Job: 7, PID: 1, PPID: 9, CPUPct: 50, RSSAnonKiB: 1, GPUs: on(1), GPUPct: 10}, 150},
		{Sample{User: "a", Cmd: "bash", Job: 7, PID: 2, PPID: 9}, 0},
		{Sample{User: "a", Cmd: "mpi", Job: 7, PID: 3, PPID: 9, CPUPct: 60, RSSAnonKiB: 2, GPUs: on(0, 1), GPUPct: 20}, 170},
		{Sample{User: "b", Cmd: "mpi", Job: 7, PID: 4}, 0},
		{Sample{User: "a", Cmd: "mpi", PID: 5}, 0},
		{Sample{User: "a", Cmd: "mpi", PID: 6}, 0},
		{Sample{User: "a", Cmd: "bash", Job: 7, PID: 8, PPID: 10}, 0},
		{Sample{User: "a", Cmd: "sh", Job: 20, Epoch: 5, PID: 20}, 0}, // a process group
		{Sample{User: "a", Cmd: "sh", Job: 20, Epoch: 5, PID: 21}, 0},
	}
	want := []process{
		{Sample{User: "a", Cmd: "mpi", Job: 7, PPID: 9, CPUPct: 110, RSSAnonKiB: 3, RolledUp: 1, GPUs: on(0, 1), GPUPct: 30}, 320},
		{Sample{User: "a", Cmd: "bash", Job: 7, RolledUp: 1}, 0},
		list[3], list[4], list[5], list[7], list[8],
	}
	got := rollUp(list)
	if d := cmp.Diff(want, got, cmp.AllowUnexported(process{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := got[0].sample(Sample{}); s.CPUTimeSec != 3 || s.RolledUp != 1 || s.PID != 0 || s.GPUs.String() != "0,1" {
		t.Errorf("%+v", s)
	}
	for ticks, want := range map[uint64]uint64{49: 0, 50: 1, 149: 1, 150: 2} { // Sonar rounds
		if s := (&process{ticks: ticks}).sample(Sample{}); s.CPUTimeSec != want {
			t.Errorf("%d ticks are %d s, want %d", ticks, s.CPUTimeSec, want)
		}
	}
}

func TestFilter(t *testing.T) {
	m := Machine{
		snap: rt.Snapshot{Boot: 100e9, Node: rt.NodeReading{MemTotal: rt.Some[uint64](1000)}},
		all: []proc.Listed{
			{PID: 1, Comm: "systemd", UID: rt.Some[uint64](0), OwnTicks: 100},
			{PID: 2, PGRP: 20, Comm: "python3", UID: rt.Some[uint64](1000), OwnTicks: 5000, ChildTicks: 100, RSS: 10},
			{PID: 3, Comm: "R", UID: rt.Some[uint64](1001), RSS: 500},
			{PID: 4, Comm: "", State: 'Z'},
			{PID: 5, Comm: "late", UID: rt.Some[uint64](1001), Start: 20000, OwnTicks: 1},
		},
		name:  func(uid uint64) string { return map[uint64]string{0: "root", 1000: "anna", 1001: "bob"}[uid] },
		epoch: 5,
	}
	for name, tc := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":            {Filter{}, "1 2 3 4 5"},
		"system":         {Filter{NoSystem: true}, "2 3 4 5"},
		"users":          {Filter{ExcludeUsers: "root,anna"}, "3 4 5"},
		"commands":       {Filter{ExcludeCommands: "py,R"}, "1 4 5"},
		"cpu":            {Filter{MinCPU: rt.Some(50.0)}, "2"},
		"time":           {Filter{MinCPUTime: rt.Some(51.0)}, "2"},
		"memory":         {Filter{MinMemory: rt.Some(50.0)}, "3"},
		"cpu or memory":  {Filter{MinCPU: rt.Some(50.0), MinMemory: rt.Some(50.0)}, "2 3"},
		"limits of zero": {Filter{MinCPU: rt.Some(0.0)}, "1 2 3 4 5"},
	} {
		var pids []string
		for _, p := range m.processes(tc.filter) {
			pids = append(pids, strconv.FormatUint(p.PID, 10))
		}
		if got := strings.Join(pids, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	list := m.processes(Filter{})
	if p := list[1]; p.CPUPct != 50 || p.ticks != 5100 || p.Job != 20 || p.Epoch != 5 {
		t.Errorf("%+v", p)
	}
	if list[3].User != "_zombie_4" || list[3].Cmd != "_noinfo_" || list[4].CPUPct != 0 {
		t.Errorf("%+v, %+v", list[3], list[4])
	}
}

func TestGPUUse(t *testing.T) {
	m := Machine{
		snap: rt.Snapshot{GPUs: []rt.GPUReading{
			{UUID: "GPU-a", Host: "0", VRAMTotal: rt.Some[uint64](1000 << 10), Detail: map[string]string{"nvml_version": "12", "pci_bus_id": "x"}, Name: "H100"},
			{UUID: "GPU-b", Host: "1", Detail: map[string]string{"nvml_version": "12"}, Name: "H100"},
			{UUID: "MIG-b1", Host: "1:0", VRAMTotal: rt.Some[uint64](2000 << 10), Detail: map[string]string{"parent_uuid": "GPU-b"}},
			{UUID: "0000:03:00.0", Host: "0000:03:00.0", Utilization: rt.Some(12.5), Power: rt.Some(99.9), Temperature: rt.Some[uint64](40), VRAMUsed: rt.Some[uint64](2048)},
		}},
		gpus: []rt.GPUProcessReading{
			{UUID: "GPU-a", PID: 5, VRAMUsed: rt.Some[uint64](500 << 10), Utilization: rt.Some(30.0)},
			{UUID: "MIG-b1", PID: 5, VRAMUsed: rt.Some[uint64](500 << 10)},
			{UUID: "GPU-gone", PID: 6},
		},
	}
	want := map[int]Sample{5: {GPUs: GPUSet{Indices: []uint32{0, 1}}, GPUPct: 30, GPUMemPct: 75, GPUKiB: 1000}}
	if d := cmp.Diff(want, m.gpuUse()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	details := []gpu.Details{
		{UUID: "GPU-b", Fan: rt.Some[uint64](27), ComputeMode: "Prohibited", State: "P8", MemUtilization: rt.Some[uint64](3), MemClock: rt.Some[uint64](405),
			PowerLimit: rt.Some(250.9), MinPowerLimit: rt.Some(100.0), MaxPowerLimit: rt.Some(300.0), MaxClock: rt.Some[uint64](1980),
			MaxMemClock: rt.Some[uint64](2619), Architecture: "Hopper", Firmware: "96.00"},
	}
	gpus := gpusOf(m.snap.GPUs, details)
	if gpus[1] != (GPU{FanPct: 27, Mode: "Prohibited", Perf: "P8", MemUtilPct: 3, PowerLimitW: 250, MemClockMHz: 405}) {
		t.Errorf("%+v", gpus[1])
	}
	if len(gpus) != 3 || gpus[2] != (GPU{MemUseKiB: 2, UtilPct: 12, TempC: 40, PowerW: 99}) {
		t.Errorf("%+v", gpus)
	}
	cards := cards(m.snap.GPUs, details)
	if c := cards[1]; c.Arch != "Hopper" || c.Firmware != "96.00" || c.PowerLimitW != 250 || c.MinPowerLimitW != 100 || c.MaxPowerLimitW != 300 ||
		c.MaxClockMHz != 1980 || c.MaxMemClockMHz != 2619 {
		t.Errorf("%+v", c)
	}
	if len(cards) != 3 || cards[0].Manufacturer != "NVIDIA" || cards[2].Manufacturer != "AMD" || cards[2].Index != 2 || cards[1].Index != 1 {
		t.Errorf("%+v", cards)
	}
	h := rt.Host{CPUModel: "EPYC", VCPUs: rt.Some[uint64](8), MemoryMiB: rt.Some[uint64](4096)}
	s := sysinfo(&h, []rt.GPUReading{
		{Host: "0", Name: "A100", VRAMTotal: rt.Some[uint64](40 << 30)}, {Host: "1", Name: "A100", VRAMTotal: rt.Some[uint64](40 << 30)},
	}, nil)
	if s.Description != "8x EPYC, 4 GiB, 2x A100 @ 40 GiB" || s.GPUCards != 2 || s.GPUMemGB != 80 || s.MemGB != 4 || s.CPUCores != 8 {
		t.Errorf("%+v", s)
	}
}

func TestJobOf(t *testing.T) {
	for text, want := range map[string]uint64{
		"0::/system.slice/n1_slurmstepd.scope/job_12/step_0/user/task_0\n":         12,
		"9:memory:/user.slice\n4:freezer:/slurm_n1/uid_1001/job_345/step_extern\n": 345,
		"0::/user.slice/job_x/a": 7, // the process group
		"0::/myjob_12":           7,
		"":                       7,
	} {
		if got, isSlurm := jobOf(&proc.Listed{PID: 9, PGRP: 7, Cgroup: text}); got != want || isSlurm != (want != 7) {
			t.Errorf("%q: job %d of Slurm %t, want %d", text, got, isSlurm, want)
		}
	}
}

// TestReadMachine reads this machine.
func TestReadMachine(t *testing.T) {
	m, err := ReadMachine(t.Context(), proc.NewFS("/proc", "/sys"), gpu.New(t.TempDir(), t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	self := slices.IndexFunc(m.all, func(p proc.Listed) bool { return p.PID == os.Getpid() })
	if self < 0 || m.all[self].PGRP != unix.Getpgrp() {
		t.Errorf("this process is number %d of the list, in another group", self)
	}
	if boot := int64(m.epoch) + epochStart - (m.snap.Wall-m.snap.Boot)/1e9; boot < -2 || boot > 2 {
		t.Errorf("epoch %d is %d s from the boot", m.epoch, boot)
	}
	if len(m.all) < 2 || m.snap.Boot > now.Nano() || len(loadOf(&m.snap)) == 0 || m.snap.Node.MemTotal.Or(0) == 0 {
		t.Errorf("%d processes, boot %d of %d, load %v", len(m.all), m.snap.Boot, now.Nano(), loadOf(&m.snap))
	}
}
