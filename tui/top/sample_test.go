package top

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

var (
	sampleStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sampleNow   = sampleStart.Add(150 * time.Second)
)

// some are the counters that grow alike: n a second.
func some(n, i uint64) rt.Opt[uint64] { return rt.Some(n * i) }

// sampleRun is a job of four cores and two GPUs.
func sampleRun(job uint64) rt.Run {
	return rt.Run{
		Identity: rt.Identity{
			Cluster: "c", JobID: rt.Some(job), Node: "n1",
			BootID: "b", Start: sampleStart.Add(time.Duration(job) * time.Millisecond),
		},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", Account: "chem", AllocCPUs: rt.Some[uint64](4)},
		Meta:       rt.Metadata{JobName: "md"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
}

// sampleSnapshot is reading i, a second after the one before. Step 0 with two tasks
// ends at 60; then step 1 runs. The job's memory grows to 97 % of its limit.
func sampleSnapshot(n int) rt.Snapshot {
	i := uint64(n)
	s := rt.Snapshot{
		Seq: int64(n) + 1, Wall: sampleStart.UnixNano() + int64(n)*1e9, Boot: 500e9 + int64(n)*1e9,
		Node: rt.NodeReading{
			CPUs: rt.Some[uint64](4), CPU: rt.Some(rt.CPUTimes{User: 300 * i, Idle: 100 * i}), Processes: rt.Some[uint64](90),
			MemTotal: rt.Some[uint64](64 << 30), MemFree: rt.Some[uint64](30 << 30), MemAvailable: rt.Some[uint64](40 << 30),
			Buffers: rt.Some[uint64](1 << 30), Cached: rt.Some[uint64](8 << 30), SReclaimable: rt.Some[uint64](1 << 30),
			NetRxBytes: some(2<<20, i), NetTxBytes: some(1<<20, i), Load1: rt.Some[uint64](312),
			GPUUsage: rt.Some(1.5), GPUVRAMUsed: rt.Some[uint64](48 << 30), GPUUtilized: rt.Some[uint64](2),
		},
		Nets:  []rt.NetReading{{Name: "eth0", OperState: "up", RxBytes: some(2<<20, i), TxBytes: some(1<<20, i)}},
		Disks: []rt.DiskReading{{Name: "nvme0n1", Leaf: true, Type: "nvme", Model: "Disk", ReadBytes: some(3<<20, i), WriteBytes: some(5<<20, i)}},
		GPUs: []rt.GPUReading{
			{UUID: "GPU-aaaa", Name: "NVIDIA H100", Type: "GPU", Utilization: rt.Some(100.0), VRAMTotal: rt.Some[uint64](80 << 30), VRAMUsed: rt.Some[uint64](40 << 30),
				Temperature: rt.Some[uint64](61), Power: rt.Some(512.5), Frequency: rt.Some[uint64](1980), InJob: rt.Some(true)},
			{UUID: "GPU-bbbb", Name: "NVIDIA H100", Type: "GPU", VRAMTotal: rt.Some[uint64](80 << 30), InJob: rt.Some(false)},
		},
		GPUProcesses: []rt.GPUProcessReading{{UUID: "GPU-aaaa", PID: 4711, VRAMUsed: rt.Some[uint64](39 << 30)}},
		Energy: []rt.EnergyReading{
			{Source: "powercap", Domain: "package-0", Kind: rt.EnergyPackage, Socket: rt.Some[uint64](0), Energy: some(150_000_000, i)},
			{Source: "ipmi", Domain: "dcmi", Kind: rt.EnergyNode, Power: rt.Some(640.0)},
		},
	}
	for c := range 4 {
		s.CPUs = append(s.CPUs, rt.CPUReading{CPU: c, Times: rt.CPUTimes{User: uint64(100-10*c) * i, Idle: uint64(10*c) * i}})
	}
	if n == 0 {
		s.Reason, s.Job.Phase = rt.ReasonFirst, rt.JobPending
		return s
	}
	s.Job = rt.JobReading{
		Phase: rt.JobPresent, CPUUsage: some(3_000_000, i), CPUUser: some(2_500_000, i), CPUSystem: some(500_000, i), CPUThrottled: some(0, i),
		MemCurrent: rt.Some((7 + i/20) << 30), MemPeak: rt.Some((7 + i/20) << 30), MemLimit: rt.Some[uint64](16 << 30), Anon: rt.Some((6 + i/20) << 30),
		File: rt.Some[uint64](1 << 30), Shmem: rt.Some[uint64](256 << 20), Swap: rt.Some[uint64](0), Pids: rt.Some[uint64](5), Threads: rt.Some[uint64](21),
		IOReadBytes: some(1<<20, i), IOWriteBytes: some(4<<20, i), EventsMax: rt.Some[uint64](0), EventsOOMKill: rt.Some[uint64](0),
		CPUStallSome: some(120_000, i), CPUStallFull: some(20_000, i), IOStallSome: some(5_000, i), IOStallFull: some(1_000, i), MajorFaults: some(2, i),
	}
	if n == 100 { // one that could not be read
		s.Job.IOReadBytes.Clear()
	}
	addProcesses(&s, n)
	return s
}

// addProcesses adds the steps and processes of reading n, and what they use of GPUs.
func addProcesses(s *rt.Snapshot, n int) {
	i := uint64(n)
	s.GPU = rt.GPUUse{Usage: rt.Some(1.0), VRAMUsed: rt.Some[uint64](40 << 30), Utilized: rt.Some[uint64](1)}
	step := func(name string, task rt.Opt[uint64], ended bool, cpu uint64) {
		s.Steps = append(s.Steps, rt.StepReading{
			Step: name, Task: task, Ended: ended, CPUUsage: rt.Some(cpu), MemCurrent: rt.Some[uint64](3 << 30), MemPeak: rt.Some[uint64](4 << 30),
			Anon: rt.Some[uint64](2 << 30), Pids: rt.Some[uint64](2), EventsOOMKill: rt.Some[uint64](0),
		})
	}
	step("batch", rt.None[uint64](), false, 10_000*i)
	if n <= 60 {
		step("0", rt.None[uint64](), n == 60, 2_900_000*i)
		step("0", rt.Some[uint64](0), n == 60, 1_900_000*i)
		step("0", rt.Some[uint64](1), n == 60, 1_000_000*i)
	} else {
		step("1", rt.None[uint64](), false, 2_900_000*(i-60))
	}
	for k, comm := range []string{"gmx", "python3"} {
		s.Procs = append(s.Procs, rt.ProcessReading{
			PID: 4711 + uint64(k), Start: 9000, Comm: comm, Step: map[bool]string{true: "0", false: "1"}[n <= 60], Task: rt.Some(uint64(k)),
			UserTicks: some(uint64(150-100*k), i), SystemTicks: some(10, i), RSS: rt.Some(uint64(k+1) << 30), Threads: rt.Some[uint64](8), ReadBytes: some(1<<10, i), WriteBytes: some(1<<20, i),
		})
	}
}

// sampleFile spools readings 0 to n-1 of a job into dir; with end it is over, else
// its tracker is what is returned.
func sampleFile(t *testing.T, dir string, job uint64, n int, end bool) (path string, w *spool.Writer) {
	t.Helper()
	run := sampleRun(job)
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Event(rt.Event{Time: sampleStart, Kind: "job", Name: "cpuset", Status: "ok", Detail: "cpus=0-1,3 mems=0"})
	put(t, w, 0, n)
	path = fmt.Sprintf("%s/%s.db", dir, run.FileStem())
	if end {
		endRun(t, w, run, n)
		return path, nil
	}
	t.Cleanup(func() { w.Close() })
	return path, w
}

func put(t *testing.T, w *spool.Writer, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		s := sampleSnapshot(i)
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func endRun(t *testing.T, w *spool.Writer, run rt.Run, n int) {
	t.Helper()
	run.Apply(rt.Exit{Code: rt.Some[int64](7), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFailed, Source: "epilog", Time: sampleStart.Add(time.Duration(n-1) * time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
}

func rt64(v uint64) rt.Opt[uint64] { return rt.Some(v) }
