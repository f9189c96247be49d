package rt

import (
	"math"
	"testing"
)

const second = int64(1e9)

// node is a snapshot of a node with 4 CPUs at second sec, with the given ticks.
func node(sec int64, user, system, idle uint64) *Snapshot {
	s := &Snapshot{Wall: 1743300000*second + sec*second, Boot: sec * second}
	s.Node.CPU.Set(CPUTimes{User: user, System: system, Idle: idle})
	s.Node.CPUs.Set(4)
	return s
}

// job is a snapshot of a job at second sec with the given microseconds of CPU.
func job(sec int64, phase JobPhase, usage, user, system uint64) *Snapshot {
	s := node(sec, 0, 0, 0)
	s.Job.Phase = phase
	if phase == JobPresent {
		s.Job.CPUUsage.Set(usage)
		s.Job.CPUUser.Set(user)
		s.Job.CPUSystem.Set(system)
	}
	return s
}

func wantU(t *testing.T, what string, got Opt[uint64], want uint64) {
	t.Helper()
	if v, ok := got.Get(); !ok || v != want {
		t.Errorf("%s = %d (read: %v), want %d", what, v, ok, want)
	}
}

func wantF(t *testing.T, what string, got Opt[float64], want float64) {
	t.Helper()
	if v, ok := got.Get(); !ok || math.Abs(v-want) > 1e-9 {
		t.Errorf("%s = %v (read: %v), want %v", what, v, ok, want)
	}
}

func wantAbsent[T any](t *testing.T, what string, got Opt[T]) {
	t.Helper()
	if v, ok := got.Get(); ok {
		t.Errorf("%s = %v, want it absent", what, v)
	}
}

func TestUtilizationIsFractionalCores(t *testing.T) {
	// 300 of 400 ticks were busy: 3 of 4 cores. iowait counts as idle.
	prev, cur := node(1, 100, 50, 1000), node(2, 300, 150, 1050)
	c := cur.Node.CPU.Or(CPUTimes{})
	c.IOWait = 50
	cur.Node.CPU.Set(c)
	s := Derive(prev, cur, ScopeNode)
	wantF(t, "utilization_pct", s.CPU.UtilizationPct, 3)
	wantF(t, "utime_secs", s.CPU.UtimeSecs, 2)
	wantF(t, "stime_secs", s.CPU.StimeSecs, 1)
	if s.TimestampSecs != 1743300002 {
		t.Errorf("timestamp_secs = %d", s.TimestampSecs)
	}
}

func TestUtimeCountsNice(t *testing.T) {
	prev, cur := node(1, 0, 0, 0), node(2, 0, 0, 0)
	prev.Node.CPU.Set(CPUTimes{User: 10, Nice: 5})
	cur.Node.CPU.Set(CPUTimes{User: 20, Nice: 35})
	wantU(t, "utime, ms", DeriveScalars(prev, cur, ScopeNode).UserMillis, 400)
}

func TestPerCoreByItsNumber(t *testing.T) {
	prev, cur := node(1, 0, 0, 0), node(2, 0, 0, 0)
	prev.CPUs = []CPUReading{{0, CPUTimes{User: 10, Idle: 90}}, {3, CPUTimes{}}}
	cur.CPUs = []CPUReading{
		{0, CPUTimes{User: 35, Idle: 165}},
		{2, CPUTimes{User: 5, Idle: 5}}, // came online in between
		{3, CPUTimes{System: 100}},
	}
	got := Derive(prev, cur, ScopeNode).CPU.PerCorePct
	if len(got) != 3 {
		t.Fatalf("%d cores, want 3", len(got))
	}
	wantF(t, "cpu0", got[0], 25)
	wantAbsent(t, "cpu2", got[1])
	wantF(t, "cpu3", got[2], 100)
}

func TestNoTreeNoProcessFields(t *testing.T) {
	s := Derive(node(1, 0, 0, 0), node(2, 0, 0, 0), ScopeNode)
	wantAbsent(t, "process_cores_used", s.CPU.ProcessCoresUsed)
	wantAbsent(t, "process_child_count", s.CPU.ProcessChildCount)
}

func TestProcessTree(t *testing.T) {
	prev, cur := node(1, 0, 0, 0), node(3, 0, 0, 0)
	prev.Tree = TreeReading{CPUUserTicks: Some[uint64](100), CPUSystemTicks: Some[uint64](10), Children: Some[uint64](1)}
	cur.Tree = TreeReading{CPUUserTicks: Some[uint64](380), CPUSystemTicks: Some[uint64](30), Children: Some[uint64](2)}
	s := Derive(prev, cur, ScopeNode)
	wantF(t, "process_cores_used", s.CPU.ProcessCoresUsed, 1.5)
	wantU(t, "process_child_count", s.CPU.ProcessChildCount, 2)
}

// everything is a snapshot in which all is read.
func everything(sec int64) *Snapshot {
	s := job(sec, JobPresent, 5e6, 4e6, 1e6)
	n, j := &s.Node, &s.Job
	for _, p := range []*Opt[uint64]{
		&n.Processes, &n.MemTotal, &n.MemFree, &n.MemAvailable, &n.Buffers, &n.Cached, &n.SReclaimable, &n.Shmem,
		&n.Active, &n.Inactive, &n.SwapTotal, &n.SwapFree, &n.NetRxBytes, &n.NetTxBytes, &n.DiskReadBytes,
		&n.DiskWriteBytes, &n.SpaceTotal, &n.SpaceAvailable, &n.GPUVRAMUsed, &n.GPUUtilized,
		&s.Tree.CPUUserTicks, &s.Tree.CPUSystemTicks, &s.Tree.Children, &s.Tree.RSS,
	} {
		p.Set(1 << 30)
	}
	n.GPUUsage.Set(0.5)
	for _, f := range JobFigures {
		if p := f.Field(j); !p.Valid() {
			p.Set(1 << 20)
		}
	}
	s.CPUs = []CPUReading{{0, CPUTimes{User: 1, Idle: 1}}}
	s.Nets = []NetReading{{Name: "eth0", RxBytes: Some[uint64](5), TxBytes: Some[uint64](6)}}
	s.Disks = []DiskReading{{Name: "sda", ReadBytes: Some[uint64](5), WriteBytes: Some[uint64](6)}}
	return s
}

// T-CPU-06: with nothing before it, a reading has differences of 0. The program never
// shows that sample, which is why this is not asked of it.
func TestT_CPU_06(t *testing.T) {
	for _, scope := range []Scope{ScopeNode, ScopeJob} {
		s := Derive(nil, everything(100), scope)
		for what, v := range map[string]Opt[uint64]{
			"utime": s.Scalars.UserMillis, "stime": s.Scalars.SystemMillis,
			"disk read": s.Scalars.DiskReadBytes, "disk written": s.Scalars.DiskWriteBytes,
			"received": s.Scalars.NetRecvBytes, "sent": s.Scalars.NetSentBytes,
		} {
			wantU(t, string(scope)+" "+what, v, 0)
		}
		for what, v := range map[string]Opt[float64]{
			"utilization_pct": s.CPU.UtilizationPct, "per_core_pct": s.CPU.PerCorePct[0],
			"process_cores_used": s.CPU.ProcessCoresUsed,
			"rx":                 s.Network[0].RxBytesPerSec, "tx": s.Network[0].TxBytesPerSec,
			"read": s.Disk[0].ReadBytesPerSec, "write": s.Disk[0].WriteBytesPerSec,
		} {
			wantF(t, string(scope)+" "+what, v, 0)
		}
	}
}

func TestNothingReadIsAbsentNotZero(t *testing.T) {
	for _, scope := range []Scope{ScopeNode, ScopeJob} {
		for _, phase := range []JobPhase{JobNone, JobPresent, JobGone} {
			cur := &Snapshot{Boot: second}
			cur.Job.Phase = phase
			s := DeriveScalars(&Snapshot{}, cur, scope)
			s.Seconds = 0
			if s != (Scalars{}) {
				t.Errorf("scope %s, phase %s: %+v", scope, phase, s)
			}
		}
	}
}

func TestCountersThatWentBackwardsAreAbsent(t *testing.T) {
	prev, cur := everything(1), everything(2)
	n := &cur.Node
	for _, p := range []*Opt[uint64]{
		&n.NetRxBytes, &n.NetTxBytes, &n.DiskReadBytes, &n.DiskWriteBytes, &cur.Tree.CPUUserTicks,
		&cur.Job.CPUUsage, &cur.Job.CPUUser, &cur.Job.CPUSystem, &cur.Job.IOReadBytes, &cur.Job.IOWriteBytes,
		&cur.Nets[0].RxBytes, &cur.Disks[0].WriteBytes,
	} {
		p.Set(1)
	}
	prev.Node.CPU.Set(CPUTimes{User: 10, System: 10, Idle: 100})
	cur.Node.CPU.Set(CPUTimes{User: 9, System: 10, Idle: 200})
	prev.CPUs[0].Times, cur.CPUs[0].Times = CPUTimes{User: 10}, CPUTimes{User: 9, Idle: 5}
	for _, scope := range []Scope{ScopeNode, ScopeJob} {
		s := Derive(prev, cur, scope)
		for what, v := range map[string]Opt[uint64]{
			"utime": s.Scalars.UserMillis, "stime": s.Scalars.SystemMillis,
			"disk read": s.Scalars.DiskReadBytes, "disk written": s.Scalars.DiskWriteBytes,
			"received": s.Scalars.NetRecvBytes, "sent": s.Scalars.NetSentBytes,
		} {
			wantAbsent(t, string(scope)+" "+what, v)
		}
		wantAbsent(t, "utilization_pct", s.CPU.UtilizationPct)
		wantAbsent(t, "per_core_pct", s.CPU.PerCorePct[0])
		wantAbsent(t, "process_cores_used", s.CPU.ProcessCoresUsed)
		wantAbsent(t, "rx_bytes_per_sec", s.Network[0].RxBytesPerSec)
		wantF(t, "tx_bytes_per_sec", s.Network[0].TxBytesPerSec, 0)
		wantAbsent(t, "write_bytes_per_sec", s.Disk[0].WriteBytesPerSec)
	}
}

func TestPendingJobStartsAtZero(t *testing.T) {
	pending := job(1, JobPending, 0, 0, 0)
	present := job(3, JobPresent, 1_500_999, 1_200_400, 300_599)
	present.Job.IOReadBytes.Set(4096)
	s := DeriveScalars(pending, present, ScopeJob)
	wantU(t, "utime, ms", s.UserMillis, 1200)
	wantU(t, "stime, ms", s.SystemMillis, 300)
	wantF(t, "cpu_usage", s.CPUUsage, 0.7504995)
	wantU(t, "disk_read_bytes", s.DiskReadBytes, 4096)
	wantAbsent(t, "disk_write_bytes, controller off", s.DiskWriteBytes)

	s = DeriveScalars(nil, pending, ScopeJob)
	wantU(t, "utime while pending", s.UserMillis, 0)
	wantAbsent(t, "disk_read_bytes while pending", s.DiskReadBytes)
	wantAbsent(t, "processes while pending", s.Processes)
}

func TestGoneJobIsAbsent(t *testing.T) {
	s := DeriveScalars(job(1, JobPresent, 5, 5, 5), job(2, JobGone, 0, 0, 0), ScopeJob)
	wantAbsent(t, "utime", s.UserMillis)
	wantAbsent(t, "cpu_usage", s.CPUUsage)
}

func TestInheritCountersSpansAGap(t *testing.T) {
	first, gap, last := job(1, JobPresent, 1e6, 1e6, 0), job(2, JobPresent, 0, 0, 0), job(5, JobPresent, 9e6, 8e6, 1e6)
	gap.Job = JobReading{Phase: JobPresent}
	first.Node.NetRxBytes.Set(100)
	last.Node.NetRxBytes.Set(350)
	first.Tree.CPUUserTicks, first.Tree.CPUSystemTicks = Some[uint64](0), Some[uint64](0)
	last.Tree.CPUUserTicks, last.Tree.CPUSystemTicks = Some[uint64](200), Some[uint64](0)
	wantAbsent(t, "utime in the gap", DeriveScalars(first, gap, ScopeJob).UserMillis)

	gap.InheritCounters(first)
	s := Derive(gap, last, ScopeJob)
	wantU(t, "utime after the gap", s.Scalars.UserMillis, 7000)
	wantU(t, "received after the gap", s.Scalars.NetRecvBytes, 250)
	wantF(t, "cpu_usage is of the whole gap", s.Scalars.CPUUsage, 2)
	wantF(t, "process_cores_used is of the whole gap", s.CPU.ProcessCoresUsed, 0.5)
	wantAbsent(t, "a gauge is not inherited", gap.Job.MemCurrent)
}

// In v1 the controllers of a job appear one after another. What was read at once
// must not be counted a second time because another controller came later.
func TestInheritCountersFromPendingCountsNothingTwice(t *testing.T) {
	pending, partly, whole := job(1, JobPending, 0, 0, 0), job(2, JobPresent, 0, 0, 0), job(3, JobPresent, 2e6, 2e6, 0)
	partly.Job = JobReading{Phase: JobPresent, IOReadBytes: Some[uint64](100)}
	whole.Job.IOReadBytes.Set(130)
	wantU(t, "first read bytes", DeriveScalars(pending, partly, ScopeJob).DiskReadBytes, 100)
	partly.InheritCounters(pending)
	s := DeriveScalars(partly, whole, ScopeJob)
	wantU(t, "further read bytes", s.DiskReadBytes, 30)
	wantU(t, "utime since the start", s.UserMillis, 2000)
	wantF(t, "cpu_usage since the start", s.CPUUsage, 1)
	if partly.Job.Phase != JobPresent {
		t.Errorf("phase = %s", partly.Job.Phase)
	}
}

func TestDeviceComesAndGoes(t *testing.T) {
	net := func(name string, rx uint64) NetReading {
		return NetReading{Name: name, RxBytes: Some(rx), TxBytes: Some(rx)}
	}
	prev, cur := node(1, 0, 0, 0), node(3, 0, 0, 0)
	prev.Nets = []NetReading{net("eth0", 10), net("ib0", 100)}
	cur.Nets = []NetReading{net("ib0", 300), net("eth1", 7)}
	prev.Disks = []DiskReading{{Name: "sda", ReadBytes: Some[uint64](1)}}
	cur.Disks = []DiskReading{{Name: "nvme0n1", ReadBytes: Some[uint64](9)}}
	s := Derive(prev, cur, ScopeNode)
	if len(s.Network) != 2 || s.Network[0].Interface != "ib0" {
		t.Fatalf("interfaces: %+v", s.Network)
	}
	wantF(t, "ib0", s.Network[0].RxBytesPerSec, 100)
	wantAbsent(t, "eth1, new", s.Network[1].RxBytesPerSec)
	wantU(t, "eth1 total", s.Network[1].RxBytesTotal, 7)
	wantAbsent(t, "nvme0n1, new", s.Disk[0].ReadBytesPerSec)
}

func TestDiskMounts(t *testing.T) {
	cur := node(1, 0, 0, 0)
	cur.Disks = []DiskReading{{Name: "sda"}, {Name: "sdb"}}
	cur.Mounts = []MountReading{
		{Disk: "sda", MountPoint: "/", FSType: "ext4", Total: 1000, Available: 300, Used: 600},
		{Disk: "sda", MountPoint: "/e", FSType: "xfs"},
	}
	got := Derive(nil, cur, ScopeNode).Disk
	if len(got[0].Mounts) != 2 || got[0].Mounts[0].UsedPct != 60 || got[0].Mounts[1].UsedPct != 0 {
		t.Errorf("mounts of sda: %+v", got[0].Mounts)
	}
	if got[1].Mounts == nil || len(got[1].Mounts) != 0 {
		t.Errorf("mounts of sdb: %#v, want an empty list", got[1].Mounts)
	}
}

func TestGPUsOfASample(t *testing.T) {
	cur := node(1, 0, 0, 0)
	if got := Derive(nil, cur, ScopeNode).GPU; got == nil || len(got) != 0 {
		t.Errorf("gpu on a host without one: %#v, want an empty list", got)
	}
	cur.GPUs = []GPUReading{{UUID: "a", VRAMTotal: Some[uint64](0)}, {UUID: "b", VRAMTotal: Some[uint64](8), VRAMUsed: Some[uint64](2)}, {UUID: "c"}}
	got := Derive(nil, cur, ScopeNode).GPU
	wantF(t, "vram_used_pct of nothing", got[0].VRAMUsedPct, 0)
	wantF(t, "vram_used_pct", got[1].VRAMUsedPct, 25)
	wantAbsent(t, "vram_used_pct not read", got[2].VRAMUsedPct)
}

func TestDeriveProcess(t *testing.T) {
	prev, cur := everything(1), everything(3)
	prev.Tree.CPUUserTicks.Set(1<<30 - 300)
	cur.Job.CPUUsage.Set(9e6)
	cur.Job.CPUUser.Set(7e6)
	p := DeriveProcess(prev, cur)
	wantU(t, "utime of the job, ms", p.UserMillis, 3000)
	wantF(t, "cpu_usage of the job", p.CPUUsage, 2)
	wantU(t, "processes of the job", p.Children, 1<<20)

	cur.Job.Phase = JobNone
	p = DeriveProcess(prev, cur)
	wantU(t, "utime of the tree, ms", p.UserMillis, 3000)
	wantF(t, "cpu_usage of the tree", p.CPUUsage, 1.5)
	wantAbsent(t, "memory of the tree without PSS", p.Memory)
	cur.Tree.PSS.Set(1 << 28)
	wantU(t, "memory of the tree", DeriveProcess(prev, cur).Memory, 1<<28)
	wantAbsent(t, "disk_read_bytes of the tree", p.DiskReadBytes)
	wantU(t, "utime of the first interval", DeriveProcess(nil, cur).UserMillis, 0)
}

// The values of the node were read by another tracker: rates are over the time between those
// readings.
func TestDeriveNodeReadByAnother(t *testing.T) {
	at := func(boot, read int64, rx uint64) *Snapshot {
		s := &Snapshot{
			Boot: boot * 1e9,
			Nets: []NetReading{{Name: "eth0", RxBytes: Some(rx), TxBytes: Some(2 * rx)}},
		}
		s.Disks = []DiskReading{{Name: "sda", ReadBytes: Some(3 * rx), WriteBytes: Some(4 * rx)}}
		s.Node.ReadBoot = read * 1e9
		return s
	}
	for name, tt := range map[string]struct{ prev, cur *Snapshot }{
		"the later one":     {at(10, 0, 1000), at(20, 18, 1800)},
		"the earlier one":   {at(12, 10, 1000), at(20, 0, 2000)},
		"both":              {at(12, 10, 1000), at(20, 16, 1600)},
		"of the same time":  {at(12, 10, 1000), at(20, 10, 1000)},
		"the first reading": {nil, at(20, 10, 1000)},
	} {
		want := 100.0
		if tt.prev == nil || tt.prev.Node.ReadBoot == tt.cur.Node.ReadBoot {
			want = 0
		}
		s := Derive(tt.prev, tt.cur, ScopeNode)
		n, d := s.Network[0], s.Disk[0]
		if n.RxBytesPerSec != Some(want) || n.TxBytesPerSec != Some(2*want) || d.ReadBytesPerSec != Some(3*want) || d.WriteBytesPerSec != Some(4*want) {
			t.Errorf("%s: %v %v %v %v bytes a second", name, n.RxBytesPerSec, n.TxBytesPerSec, d.ReadBytesPerSec, d.WriteBytesPerSec)
		}
	}
}

// A job's rows show its own GPUs, and nothing where nothing was read of them.
func TestJobScopeShowsTheJobsGPUs(t *testing.T) {
	s := job(1, JobPresent, 0, 0, 0)
	s.Node.GPUUsage, s.Node.GPUVRAMUsed, s.Node.GPUUtilized = Some(3.5), Some[uint64](7<<30), Some[uint64](4)
	if d := DeriveScalars(nil, s, ScopeJob); d.GPUUsage.Valid() || d.GPUVRAMUsed.Valid() || d.GPUUtilized.Valid() {
		t.Errorf("the node's, for want of the job's: %+v", d)
	}
	s.GPU = GPUUse{Usage: Some(0.5), Utilized: Some[uint64](1)}
	d := DeriveScalars(nil, s, ScopeJob)
	wantF(t, "gpu_usage", d.GPUUsage, 0.5)
	wantU(t, "gpu_utilized", d.GPUUtilized, 1)
	wantAbsent(t, "memory that was not read of the job's GPUs", d.GPUVRAMUsed)
	wantF(t, "gpu_usage of the node", DeriveScalars(nil, s, ScopeNode).GPUUsage, 3.5)
	if p := DeriveProcess(nil, s); p.GPU != s.GPU {
		t.Errorf("process_gpu_*: %+v", p.GPU)
	}
	s.Job = JobReading{}
	if p := DeriveProcess(nil, s); p.GPU != s.GPU {
		t.Errorf("process_gpu_* of a tree: %+v", p.GPU)
	}
	wantF(t, "gpu_usage without a job", DeriveScalars(nil, s, ScopeJob).GPUUsage, 3.5)
}

// The bytes of a job are counted once: by its processes while there is no io controller, and then by the controller.
func TestJobIOChangesItsSourceWithoutCountingTwice(t *testing.T) {
	some := Some[uint64]
	type io struct{ controller, processes Opt[uint64] }
	for _, tt := range []struct {
		name     string
		readings []io
		want     uint64
	}{
		{"controller", []io{{some(10), Opt[uint64]{}}, {some(15), Opt[uint64]{}}}, 15},
		{"processes", []io{{Opt[uint64]{}, some(10)}, {Opt[uint64]{}, some(15)}}, 15},
		{"both", []io{{some(10), some(11)}, {some(15), some(17)}}, 15},
		{"controller comes late", []io{{Opt[uint64]{}, some(10)}, {some(15), some(15)}, {some(18), some(18)}}, 18},
		{"controller has a gap", []io{{some(10), some(10)}, {Opt[uint64]{}, some(15)}, {some(18), some(18)}}, 18},
		{"processes have a gap", []io{{Opt[uint64]{}, some(10)}, {}, {Opt[uint64]{}, some(15)}}, 15},
	} {
		list := []*Snapshot{job(0, JobPending, 0, 0, 0)}
		for i, r := range tt.readings {
			s := job(int64(i+1), JobPresent, 0, 0, 0)
			s.Job.IOReadBytes, s.Job.ProcReadBytes = r.controller, r.processes
			s.Job.IOWriteBytes, s.Job.ProcWriteBytes = r.controller, r.processes
			list = append(list, s)
		}
		var read, written uint64
		for i, err := range Intervals(reusing(list, nil)) {
			if err != nil {
				t.Fatal(err)
			}
			d := DeriveScalars(i.Prev, i.Cur, ScopeJob)
			read, written = read+d.DiskReadBytes.Or(0), written+d.DiskWriteBytes.Or(0)
		}
		if read != tt.want || written != tt.want {
			t.Errorf("%s: read %d, written %d, want %d", tt.name, read, written, tt.want)
		}
	}
}

// TestJobIOSums: the rows of a job's disk I/O add up to the count of the controller or the processes, whenever their
// first reading was.
func TestJobIOSums(t *testing.T) {
	no := None[uint64]
	yes := Some[uint64]
	type reading struct{ controller, processes Opt[uint64] }
	for name, tt := range map[string]struct {
		readings []reading
		want     Opt[uint64]
	}{
		"processes, first read late":        {[]reading{{no(), no()}, {no(), no()}, {no(), yes(237568)}}, yes(237568)},
		"processes, with a gap":             {[]reading{{no(), yes(10)}, {no(), no()}, {no(), yes(30)}}, yes(30)},
		"controller":                        {[]reading{{yes(5), yes(7)}, {yes(9), yes(11)}}, yes(9)},
		"controller, first read late":       {[]reading{{no(), no()}, {yes(9), no()}}, yes(9)},
		"controller, with a gap":            {[]reading{{yes(5), yes(5)}, {no(), yes(8)}, {yes(9), yes(9)}}, yes(9)},
		"controller that comes late":        {[]reading{{no(), yes(10)}, {yes(12), yes(12)}, {yes(20), yes(20)}}, yes(20)},
		"neither":                           {[]reading{{no(), no()}, {no(), no()}}, no()},
		"controller at zero, processes not": {[]reading{{yes(0), yes(4)}, {yes(0), yes(8)}}, yes(0)},
	} {
		t.Run(name, func(t *testing.T) {
			prev := &Snapshot{Job: JobReading{Phase: JobPending}}
			sum := None[uint64]()
			for i, r := range tt.readings {
				cur := &Snapshot{Boot: int64(i+1) * 1e9, Job: JobReading{Phase: JobPresent, IOReadBytes: r.controller, ProcReadBytes: r.processes}}
				if n, ok := DeriveScalars(prev, cur, ScopeJob).DiskReadBytes.Get(); ok {
					sum.Set(sum.Or(0) + n)
				}
				cur.InheritCounters(prev)
				prev = cur
			}
			if sum != tt.want {
				t.Errorf("the rows add up to %v, want %v", sum, tt.want)
			}
		})
	}
}

// TestPendingJobIOSums: what the processes of a pending job wrote is in the rows after the cgroup was found,
// whether or not there is a controller.
func TestPendingJobIOSums(t *testing.T) {
	no := None[uint64]
	yes := Some[uint64]
	type reading struct {
		phase                 JobPhase
		controller, processes Opt[uint64]
	}
	for name, tt := range map[string]struct {
		readings []reading
		want     Opt[uint64]
	}{
		"processes":            {[]reading{{JobPending, no(), yes(4096)}, {JobPresent, no(), yes(8192)}, {JobGone, no(), yes(12288)}}, yes(12288)},
		"processes, twice":     {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), yes(20)}, {JobPresent, no(), yes(30)}}, yes(30)},
		"pending, with a gap":  {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), no()}, {JobPresent, no(), yes(30)}}, yes(30)},
		"present, with a gap":  {[]reading{{JobPending, no(), yes(10)}, {JobPresent, no(), no()}, {JobPresent, no(), yes(30)}}, yes(30)},
		"controller":           {[]reading{{JobPending, no(), yes(10)}, {JobPresent, yes(7), yes(20)}, {JobPresent, yes(9), yes(30)}}, yes(9)},
		"controller, later":    {[]reading{{JobPending, no(), yes(10)}, {JobPresent, no(), no()}, {JobPresent, yes(9), yes(30)}}, yes(9)},
		"never with a cgroup":  {[]reading{{JobPending, no(), yes(10)}, {JobPending, no(), yes(20)}}, no()},
		"gone before any read": {[]reading{{JobPending, no(), yes(10)}, {JobGone, no(), yes(20)}}, yes(20)},
	} {
		t.Run(name, func(t *testing.T) {
			var w Walk
			w.Step(&Snapshot{Job: JobReading{Phase: JobPending}})
			sum := None[uint64]()
			for i, r := range tt.readings {
				cur := &Snapshot{Boot: int64(i+1) * 1e9, Job: JobReading{Phase: r.phase, IOWriteBytes: r.controller, ProcWriteBytes: r.processes}}
				if n, ok := DeriveScalars(w.Step(cur), cur, ScopeJob).DiskWriteBytes.Get(); ok {
					sum.Set(sum.Or(0) + n)
				}
			}
			if sum != tt.want {
				t.Errorf("the rows add up to %v, want %v", sum, tt.want)
			}
		})
	}
}
