package spool

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// start is when the runs of these tests began.
var start = time.Date(2026, 3, 1, 8, 0, 0, 123456000, time.UTC)

func testRun() rt.Run {
	return rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](12), Node: "n1", BootID: "boot-1", Start: start},
		Allocation: rt.Allocation{User: "ada"},
		Interval:   1,
		Ending:     rt.Ending{State: rt.StateRunning},
	}
}

// machine plays a node with a job: what it reads changes the way a busy node's
// figures do. Half of its cores are busy with the job.
type machine struct {
	rng  *rand.Rand
	snap rt.Snapshot
}

func newMachine(cores, gpus int) *machine {
	m := &machine{rng: rand.New(rand.NewPCG(1, 2))}
	s := &m.snap
	s.Wall, s.Boot = start.UnixNano(), 864_000_000_000_000
	s.Node.CPU.Set(rt.CPUTimes{User: 812_345_678, Nice: 1234, System: 23_456_789, Idle: 3_912_345_678, IOWait: 345_678, SoftIRQ: 234_567})
	s.Node.CPUs.Set(uint64(cores))
	s.Node.Processes.Set(812)
	set := func(v uint64, fields ...*rt.Opt[uint64]) {
		for _, f := range fields {
			f.Set(v)
		}
	}
	n, j := &s.Node, &s.Job
	set(256<<30, &n.MemTotal)
	set(90<<30, &n.MemFree, &n.MemAvailable, &n.Active, &n.Inactive, &n.Cached)
	set(1<<30, &n.Buffers, &n.SReclaimable, &n.Shmem)
	set(0, &n.SwapTotal, &n.SwapFree, &n.GPUVRAMUsed, &n.GPUUtilized)
	n.GPUUsage.Set(0)
	set(123_456_789_012, &n.NetRxBytes, &n.NetTxBytes, &n.DiskReadBytes, &n.DiskWriteBytes)
	set(900<<30, &n.SpaceTotal, &n.SpaceAvailable)
	j.Phase = rt.JobPresent
	set(0, &j.CPUUsage, &j.CPUUser, &j.CPUSystem, &j.CPUThrottled, &j.Swap, &j.PageFaults, &j.MajorFaults,
		&j.EventsHigh, &j.EventsMax, &j.EventsOOM, &j.EventsOOMKill, &j.IOReadBytes, &j.IOWriteBytes)
	set(20<<30, &j.MemCurrent, &j.MemPeak, &j.Anon, &j.Active)
	set(64<<30, &j.MemLimit)
	set(1<<30, &j.File, &j.Shmem, &j.Kernel, &j.SlabReclaimable, &j.Inactive)
	set(33, &j.Pids)
	set(0, &j.StepdCPUUsage, &j.CPUStallSome, &j.CPUStallFull, &j.MemStallSome, &j.MemStallFull, &j.IOStallSome, &j.IOStallFull,
		&j.HugeTLB, &j.RDMAHandles, &j.RDMAObjects, &j.VoluntarySwitches, &j.InvoluntarySwitches)
	set(20<<30, &j.MemIntervalPeak)
	set(70, &j.Threads)
	set(3200, &n.Load1)
	set(2_450_000, &n.CPUFreq)
	for i := range cores {
		s.CPUs = append(s.CPUs, rt.CPUReading{CPU: i, Times: rt.CPUTimes{User: 12_345_678, System: 345_678, Idle: 23_456_789}})
	}
	for _, name := range []string{"eth0", "ib0"} {
		s.Nets = append(s.Nets, rt.NetReading{Name: name, MAC: "02:00:00:00:00:01", Driver: "virtio_net", OperState: "up",
			SpeedMbps: rt.Some[int64](10000), MTU: rt.Some[uint64](1500), RxBytes: rt.Some[uint64](1e11), TxBytes: rt.Some[uint64](2e11)})
	}
	for _, name := range []string{"nvme0n1", "sda"} {
		s.Disks = append(s.Disks, rt.DiskReading{Name: name, Leaf: true, Model: "M", Type: "nvme", Capacity: rt.Some[uint64](1e12),
			ReadBytes: rt.Some[uint64](5e11), WriteBytes: rt.Some[uint64](6e11)})
	}
	for _, point := range []string{"/", "/scratch", "/boot"} {
		s.Mounts = append(s.Mounts, rt.MountReading{Disk: "nvme0n1", MountPoint: point, FSType: "xfs", Total: 1e12, Available: 6e11, Used: 4e11})
	}
	for i := range gpus {
		s.GPUs = append(s.GPUs, rt.GPUReading{UUID: "GPU-" + string(rune('a'+i)), Name: "A100", Type: "GPU", Host: "0",
			VRAMTotal: rt.Some[uint64](80 << 30), Detail: map[string]string{"driver": "550"}})
	}
	return m
}

// about is a figure around n.
func (m *machine) about(n uint64) uint64 { return n/2 + m.rng.Uint64N(n+1) }

func (m *machine) grow(by uint64, fields ...*rt.Opt[uint64]) {
	for _, f := range fields {
		f.Set(f.Or(0) + m.about(by))
	}
}

// wobble moves gauges up and down by pages of 4 KiB.
func (m *machine) wobble(pages uint64, fields ...*rt.Opt[uint64]) {
	for _, f := range fields {
		f.Set(f.Or(0) + (m.rng.Uint64N(2*pages)-pages)*4096)
	}
}

// next lets a second pass and returns the reading, which is reused.
func (m *machine) next() *rt.Snapshot {
	s := &m.snap
	n, j := &s.Node, &s.Job
	s.Seq++
	s.Reason = rt.ReasonTick
	if s.Seq == 1 {
		s.Reason = rt.ReasonFirst
	}
	step := int64(time.Second) + m.rng.Int64N(200_000)
	s.Wall, s.Boot = s.Wall+step, s.Boot+step
	busy := uint64(len(s.CPUs)) / 2
	t := n.CPU.Or(rt.CPUTimes{})
	t.User += busy * 98
	t.Nice += m.rng.Uint64N(3) // the tracker itself
	t.System += m.about(20)
	t.Idle += busy * 99
	t.IOWait += m.rng.Uint64N(4)
	t.SoftIRQ += m.rng.Uint64N(5)
	n.CPU.Set(t)
	n.Processes.Set(810 + m.rng.Uint64N(4))
	m.wobble(2000, &n.MemFree, &n.MemAvailable, &n.Cached, &n.Active, &n.Inactive)
	m.wobble(20, &n.Buffers, &n.SReclaimable, &n.Shmem, &n.SpaceAvailable)
	m.grow(200_000, &n.NetRxBytes, &n.NetTxBytes)
	n.DiskReadBytes.Set(n.DiskReadBytes.Or(0) + m.about(50)*512)
	n.DiskWriteBytes.Set(n.DiskWriteBytes.Or(0) + m.about(2000)*512)
	m.grow(busy*990_000, &j.CPUUsage)
	m.grow(busy*980_000, &j.CPUUser)
	m.grow(busy*10_000, &j.CPUSystem)
	m.wobble(1000, &j.MemCurrent, &j.Anon, &j.Active)
	m.wobble(100, &j.File, &j.Inactive)
	m.wobble(2, &j.Kernel)
	j.SlabReclaimable.Set(j.SlabReclaimable.Or(0) + m.rng.Uint64N(900))
	m.grow(2000, &j.PageFaults)
	if s.Seq%30 == 0 {
		m.grow(3000, &j.StepdCPUUsage) // it polls twice a minute
	}
	if m.rng.IntN(4) == 0 {
		m.grow(300, &j.IOStallSome, &j.IOStallFull)
	}
	m.grow(5000, &j.CPUStallSome, &j.VoluntarySwitches)
	m.grow(100, &j.InvoluntarySwitches)
	j.MemIntervalPeak.Set(j.MemCurrent.Or(0) + m.rng.Uint64N(4000)*4096)
	n.Load1.Set(3190 + m.rng.Uint64N(20))
	n.CPUFreq.Set(2_400_000 + m.rng.Uint64N(100_000))
	m.grow(100_000, &j.IOReadBytes, &j.IOWriteBytes)
	m.nextOfCores(int(busy))
	m.grow(200_000, &s.Nets[0].RxBytes, &s.Nets[0].TxBytes)
	m.grow(1_000_000, &s.Disks[0].ReadBytes, &s.Disks[0].WriteBytes)
	if m.rng.IntN(3) == 0 {
		s.Mounts[1].Available -= 4096
		s.Mounts[1].Used += 4096
	}
	m.nextOfJob()
	m.nextOfGPUs()
	return s
}

// nextOfCores lets the first of them work for the job.
func (m *machine) nextOfCores(busy int) {
	for i := range m.snap.CPUs {
		t := &m.snap.CPUs[i].Times
		if i < busy {
			t.User += 98
			t.System += 1 + m.rng.Uint64N(2)
		} else {
			t.Idle += 99
			t.System += m.rng.Uint64N(2)
		}
		if m.rng.IntN(8) == 0 {
			t.Idle++
		}
	}
}

func (m *machine) nextOfGPUs() {
	for i := range m.snap.GPUs {
		g := &m.snap.GPUs[i]
		g.Utilization.Set(float64(80 + m.rng.IntN(20)))
		g.VRAMUsed.Set(40<<30 + m.rng.Uint64N(1<<20))
		g.Power.Set(250 + m.rng.Float64())
		g.Temperature.Set(60 + m.rng.Uint64N(3))
		g.Frequency.Set(1410)
	}
}

// withJob adds what a job of so many tasks shows beyond its totals: steps, tasks,
// processes, energy, a network.
func (m *machine) withJob(tasks int) {
	s := &m.snap
	some := rt.Some[uint64]
	s.Steps = append(s.Steps, rt.StepReading{Step: "extern"}, rt.StepReading{Step: "0"})
	for i := range tasks {
		s.Steps = append(s.Steps, rt.StepReading{Step: "0", Task: some(uint64(i))})
		s.Procs = append(s.Procs, rt.ProcessReading{PID: 4000 + uint64(i), Start: 86_400_000, Comm: "solver", Step: "0", Task: some(uint64(i))})
	}
	for i := range s.Steps {
		t := &s.Steps[i]
		for _, p := range []*rt.Opt[uint64]{&t.MemCurrent, &t.MemPeak, &t.Anon, &t.File, &t.Shmem} {
			p.Set(1 << 30)
		}
		for _, p := range []*rt.Opt[uint64]{&t.CPUUsage, &t.CPUUser, &t.CPUSystem, &t.PageFaults, &t.MajorFaults, &t.EventsOOMKill} {
			p.Set(0)
		}
		t.Pids = some(1)
	}
	for _, domain := range []string{"package-0", "package-1"} {
		s.Energy = append(s.Energy, rt.EnergyReading{Source: "powercap", Domain: domain, Kind: rt.EnergyPackage, Energy: some(0)})
	}
	s.Fabrics = append(s.Fabrics, rt.FabricReading{Device: "mlx5_0", Port: 1, RxBytes: some(1e12), TxBytes: some(1e12), RxPackets: some(1e9), TxPackets: some(1e9)})
}

// nextOfJob moves what withJob added.
func (m *machine) nextOfJob() {
	s := &m.snap
	for i := range s.Steps {
		if t := &s.Steps[i]; t.Step != "extern" {
			m.grow(990_000, &t.CPUUsage, &t.CPUUser)
			m.grow(9_000, &t.CPUSystem)
			m.grow(100, &t.PageFaults)
			m.wobble(100, &t.MemCurrent, &t.Anon)
		}
	}
	for i := range s.Procs {
		p := &s.Procs[i]
		m.grow(98, &p.UserTicks)
		m.grow(1, &p.SystemTicks)
		p.RSS.Set(1<<30 + m.rng.Uint64N(1000)*4096)
		p.Threads.Set(2)
	}
	for i := range s.Energy {
		m.grow(90_000_000, &s.Energy[i].Energy)
	}
	for i := range s.Fabrics {
		f := &s.Fabrics[i]
		m.grow(1_000_000, &f.RxBytes, &f.TxBytes)
		m.grow(1000, &f.RxPackets, &f.TxPackets)
	}
}

func mustCreate(t testing.TB, opts Options) *Writer {
	t.Helper()
	w, err := Create(t.TempDir(), testRun(), rt.Host{HostName: "n1"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func mustOpen(t testing.TB, path string) *Reader {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}
