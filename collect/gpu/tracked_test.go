//go:build cgo

package gpu

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// ledger keeps events.
type ledger []rt.Event

func (l *ledger) take(e rt.Event) { *l = append(*l, e) }

func (l ledger) want(t *testing.T, parts ...string) {
	t.Helper()
	if len(l) != len(parts) {
		t.Fatalf("%d events: %+v", len(l), l)
	}
	for i, e := range l {
		if e.Kind != "job" || e.Name != "gpu" || !strings.Contains(e.Status+": "+e.Detail, parts[i]) {
			t.Errorf("event %d: %+v, want %q", i, e, parts[i])
		}
	}
}

func wantUse(t *testing.T, got rt.GPUUse, usage rt.Opt[float64], vram, utilized rt.Opt[uint64]) {
	t.Helper()
	if diff := cmp.Diff(rt.GPUUse{Usage: usage, VRAMUsed: vram, Utilized: utilized}, got, insides); diff != "" {
		t.Errorf("the use (-want +got):\n%s", diff)
	}
}

// inJob is what the devices say: y, n, or ? where it is not known.
func inJob(gpus []rt.GPUReading) (text string) {
	for i := range gpus {
		switch v, ok := gpus[i].InJob.Get(); {
		case !ok:
			text += "?"
		case v:
			text += "y"
		default:
			text += "n"
		}
	}
	return text
}

// shuffled is a node with device files in the reverse order of NVML's numbers, as after a
// GPU was replaced.
func shuffled(count int, m model) *server {
	srv := newServer(count, m)
	for i, d := range srv.devices {
		d.GetMinorNumberFunc = func() (int, nvml.Return) { return count - 1 - i, nvml.SUCCESS }
	}
	return srv
}

func idle(srv *server) *server {
	for _, d := range srv.devices {
		running(d)
	}
	return srv
}

// users-ask 7: a job's GPUs are found by their device files, not by NVML's order.
func TestAllocationByMinor(t *testing.T) {
	for _, tc := range []struct {
		list, want string
		usage      float64
		gib        uint64
	}{
		{"0", "nnny", 0.5, 4},
		{"3", "ynnn", 0.5, 1},
		{"0,2", "nyny", 1, 6},
		{"1-3", "yyyn", 1.5, 6},
		{"GPU-0001", "nynn", 0.5, 2},
	} {
		var events ledger
		srv := idle(shuffled(4, a100))
		s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(), Devices: tc.list, ByDevice: true, Event: events.take})))
		if got := inJob(s.GPUs); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.list, got, tc.want)
		}
		wantUse(t, s.GPU, rt.Some(tc.usage), rt.Some(tc.gib*gib), rt.Some(uint64(tc.usage*2)))
		events.want(t)
	}
}

// Around a command it is the processes that count, whatever GPUs the job has.
func TestUseOfATree(t *testing.T) {
	srv := idle(newServer(3, h100))
	running(srv.devices[1], nvml.ProcessInfo{Pid: 10, UsedGpuMemory: 5 << 20}, nvml.ProcessInfo{Pid: 11, UsedGpuMemory: 3 << 20}, nvml.ProcessInfo{Pid: 99, UsedGpuMemory: gib})
	srv.devices[1].GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		return []nvml.ProcessUtilizationSample{{Pid: 10, TimeStamp: 1, SmUtil: 30}, {Pid: 11, TimeStamp: 1, SmUtil: 20}, {Pid: 99, TimeStamp: 1, SmUtil: 40}}, nvml.SUCCESS
	}
	s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(11, 10), Devices: "1"})))
	if got := inJob(s.GPUs); got != "nyn" {
		t.Errorf("the devices: %s", got)
	}
	wantUse(t, s.GPU, rt.Some(0.5), rt.Some[uint64](8<<20), rt.Some[uint64](1))
	if len(s.GPUProcesses) != 2 || s.GPUProcesses[0].PID != 10 || s.GPUProcesses[1].PID != 11 {
		t.Errorf("%+v", s.GPUProcesses)
	}
}

// The use of a job without a list is what its processes use: nothing if none is on a GPU.
func TestJobWithoutList(t *testing.T) {
	for name, tc := range map[string]struct {
		srv  *server
		want rt.GPUUse
	}{
		"4 GPUs": {idle(newServer(4, a100)), rt.GPUUse{Usage: rt.Some(0.0), VRAMUsed: rt.Some[uint64](0), Utilized: rt.Some[uint64](0)}},
		"no GPU": {newServer(0, a100), rt.GPUUse{}},
	} {
		var events ledger
		s := read(t, tc.srv.source(t, WithTracked(Tracked{PIDs: pids(1), ByDevice: true, Event: events.take})))
		wantUse(t, s.GPU, tc.want.Usage, tc.want.VRAMUsed, tc.want.Utilized)
		if strings.Trim(inJob(s.GPUs), "?") != "" {
			t.Errorf("%s: %s", name, inJob(s.GPUs))
		}
		events.want(t)
	}
}

// A list that cannot be of these devices names none of them as the job's, and their use is not 0.
func TestListThatDoesNotFit(t *testing.T) {
	mig := idle(newServer(2, a100))
	partition(mig.devices[1], "x", 0)
	instance, _ := mig.devices[1].GetMigDeviceHandleByIndex(0)
	running(instance.(*mock.Device), nvml.ProcessInfo{Pid: 9, UsedGpuMemory: 3 << 20})
	for name, tc := range map[string]struct {
		srv  *server
		list string
		says string
		vram rt.Opt[uint64]
	}{
		"a number too much": {idle(newServer(2, a100)), "0,5", "1 of the 2 GPUs of the list were not found", rt.None[uint64]()},
		"a UUID of no GPU":  {idle(newServer(2, a100)), "GPU-0000,MIG-gone", "1 of the 2 GPUs of the list were not found", rt.None[uint64]()},
		"no number":         {idle(newServer(2, a100)), "tesla:1", `"tesla:1" in the list`, rt.None[uint64]()},
		"half a range":      {idle(newServer(2, a100)), "0-", `"0-" in the list`, rt.None[uint64]()},
		"backwards":         {idle(newServer(2, a100)), "1-0", `"1-0" in the list`, rt.None[uint64]()},
		"numbers with MIG":  {mig, "0", "divided", rt.Some[uint64](3 << 20)},
		"no GPU at all":     {newServer(0, a100), "0", "1 of the 1 GPUs of the list were not found", rt.None[uint64]()},
	} {
		t.Run(name, func(t *testing.T) {
			var events ledger
			src := tc.srv.source(t, WithTracked(Tracked{PIDs: pids(9), Devices: tc.list, ByDevice: true, Event: events.take}))
			for range 2 {
				s := read(t, src)
				if got := inJob(s.GPUs); strings.Trim(got, "?") != "" {
					t.Errorf("the devices: %s", got)
				}
				wantUse(t, s.GPU, rt.None[float64](), tc.vram, rt.None[uint64]())
			}
			events.want(t, "absent: the GPUs of the job are unknown: ")
			events.want(t, tc.says)
		})
	}
}

// MIG: the instance's memory is the job's, and its utilization is not known. The GPU of the
// instance belongs in part to the job.
func TestAllocatedInstance(t *testing.T) {
	srv := idle(newServer(2, a100))
	partition(srv.devices[1], "x", 0, 2)
	for _, i := range []int{0, 2} {
		instance, _ := srv.devices[1].GetMigDeviceHandleByIndex(i)
		running(instance.(*mock.Device))
	}
	s := read(t, srv.source(t, WithTracked(Tracked{PIDs: pids(), Devices: "MIG-x-2", ByDevice: true})))
	if got := inJob(s.GPUs); got != "n?ny" {
		t.Errorf("the devices: %s", got)
	}
	wantUse(t, s.GPU, rt.None[float64](), rt.Some[uint64](1<<20), rt.None[uint64]())
}

// Processes on the wrong GPU are reported once, and those outside the job only if they
// stay.
func TestMismatch(t *testing.T) {
	srv := idle(newServer(3, a100))
	for _, d := range srv.devices {
		d.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND }
	}
	var events ledger
	src := srv.source(t, WithTracked(Tracked{PIDs: pids(5), Devices: "0", ByDevice: true, Event: events.take}))
	running(srv.devices[0], nvml.ProcessInfo{Pid: 5}, nvml.ProcessInfo{Pid: 6})
	running(srv.devices[2], nvml.ProcessInfo{Pid: 8})
	read(t, src)
	events.want(t)
	running(srv.devices[0], nvml.ProcessInfo{Pid: 7})
	read(t, src) // pid 6 was on its way into the job
	events.want(t)
	read(t, src)
	events.want(t, "mismatch: a process that is not of the job uses GPU-0000 (PCI 00000000:01:00.0), which is among the job's GPUs (0)")
	running(srv.devices[1], nvml.ProcessInfo{Pid: 5})
	read(t, src)
	read(t, src)
	events.want(t, "mismatch: a process that is not of the job", "mismatch: a process of the job uses GPU-0001 (PCI 00000000:02:00.0), which is not among the job's GPUs (0)")
}

// A driver that is late says nothing about the job's GPUs, and nothing is said of it.
func TestLateDriver(t *testing.T) {
	var events ledger
	src := with(&script{answer: func(_ int, r *reading) { select {} }})
	WithTracked(Tracked{PIDs: pids(), Devices: "0", ByDevice: true, Event: events.take})(src)
	src.maxWait = 1
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	wantUse(t, s.GPU, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
	events.want(t)
}

// The processes on AMD's GPUs are unknown, and so is their use. There is no number of a
// device file that identifies a job's GPUs.
func TestTrackedOnAMD(t *testing.T) {
	for _, list := range []string{"", "0"} {
		var events ledger
		src := open(t, t.TempDir(), amdNode(t), WithTracked(Tracked{PIDs: pids(1), Devices: list, ByDevice: true, Event: events.take}))
		s := read(t, src)
		wantUse(t, s.GPU, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
		if len(s.GPUs) == 0 || strings.Trim(inJob(s.GPUs), "?") != "" {
			t.Errorf("the devices: %q", inJob(s.GPUs))
		}
		if list != "" {
			events.want(t, "has no device file with a number")
		}
	}
}

// A list that fits is held against the devices once, as is one that does not.
func TestTrackedAllocatesNothing(t *testing.T) {
	for _, list := range []string{"", "0"} {
		src := open(t, t.TempDir(), t.TempDir(), WithTracked(Tracked{PIDs: pids(1), Devices: list, ByDevice: true}))
		var s rt.Snapshot
		read := func() {
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if n := testing.AllocsPerRun(10, read); n != 0 {
			t.Errorf("%q: a reading makes %v allocations", list, n)
		}
	}
}

func FuzzAllocation(f *testing.F) {
	for _, seed := range []string{"", "0", "0,2-3", "GPU-1,MIG-2", "0-", "4095", "4096", "1-0", "a", ",", "0-99999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAllocation(text)
		if err != nil && (len(a.minors) != 0 || len(a.uuids) != 0) {
			t.Errorf("%q: %v and %+v", text, err, a)
		}
		if len(a.minors) > 4096*(strings.Count(text, ",")+1) {
			t.Errorf("%q: %d numbers", text, len(a.minors))
		}
	})
}
