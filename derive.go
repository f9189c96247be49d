package rt

import "time"

const (
	mib           = 1 << 20
	millisPerTick = 1000 / TicksPerSecond
)

// Derive returns the sample of the interval between two snapshots. If prev is nil, all
// differences are 0 (T-CPU-06). A counter that went backwards gives an absent value for
// this interval, never a negative rate. Neither snapshot is changed or retained.
func Derive(prev, cur *Snapshot, scope Scope) Sample {
	secs := nodeSeconds(prev, cur)
	s := Sample{TimestampSecs: time.Unix(0, cur.Wall).Unix(), Scalars: DeriveScalars(prev, cur, scope)}
	s.CPU = deriveCPU(prev, cur, &s.Scalars)
	s.Memory = deriveMemory(cur, scope, &s.Scalars)
	s.Network = deriveNetwork(prev, cur, secs)
	s.Disk = deriveDisk(prev, cur, secs)
	s.GPU = deriveGPU(cur)
	return s
}

// nodeSeconds returns the time between two readings of the node, which another tracker
// can have taken before the snapshot; 0 if prev is nil.
func nodeSeconds(prev, cur *Snapshot) float64 {
	if prev == nil {
		return 0
	}
	return float64(cur.nodeBoot()-prev.nodeBoot()) / 1e9
}

// nodeBoot returns the time at which the values of the node were read.
func (s *Snapshot) nodeBoot() int64 {
	if s.Node.ReadBoot != 0 {
		return s.Node.ReadBoot
	}
	return s.Boot
}

// DeriveScalars is Derive for the columns of section 7.2 alone. It allocates nothing.
func DeriveScalars(prev, cur *Snapshot, scope Scope) Scalars {
	if prev == nil {
		prev = cur
	}
	job := scope == ScopeJob && cur.Job.Phase != JobNone
	s := Scalars{
		Seconds:        float64(cur.Boot-prev.Boot) / 1e9,
		Processes:      cur.Node.Processes,
		DiskReadBytes:  Delta(prev.Node.DiskReadBytes, cur.Node.DiskReadBytes),
		DiskWriteBytes: Delta(prev.Node.DiskWriteBytes, cur.Node.DiskWriteBytes),
		SpaceTotal:     cur.Node.SpaceTotal,
		SpaceAvailable: cur.Node.SpaceAvailable,
		NetRecvBytes:   Delta(prev.Node.NetRxBytes, cur.Node.NetRxBytes),
		NetSentBytes:   Delta(prev.Node.NetTxBytes, cur.Node.NetTxBytes),
		GPUs:           cur.Node.GPUs,
		GPUUsage:       cur.Node.GPUUsage,
		GPUVRAMUsed:    cur.Node.GPUVRAMUsed,
		GPUUtilized:    cur.Node.GPUUtilized,
	}
	s.addVirtualNets(prev, cur)
	if job {
		s.jobScope(&prev.Job, &cur.Job, &cur.Node, float64(cur.Boot-prev.usageBoot())/1e9)
		s.GPUUsage, s.GPUVRAMUsed, s.GPUUtilized = cur.GPU.Usage, cur.GPU.VRAMUsed, cur.GPU.Utilized
	} else {
		s.nodeScope(&prev.Node, &cur.Node)
	}
	return s
}

// addVirtualNets adds the interfaces that Wire leaves out: section 7.2 sums over all interfaces.
func (s *Scalars) addVirtualNets(prev, cur *Snapshot) {
	wire := NewWire(cur.Nets)
	for i := range cur.Nets {
		c := &cur.Nets[i]
		if wire.Has(i) {
			continue
		}
		p := Find(prev.Nets, i, func(n *NetReading) bool { return n.Name == c.Name })
		if p == nil {
			continue
		}
		s.NetRecvBytes = plus(s.NetRecvBytes, Delta(p.RxBytes, c.RxBytes))
		s.NetSentBytes = plus(s.NetSentBytes, Delta(p.TxBytes, c.TxBytes))
	}
}

// plus adds more to sum. An absent sum stays absent.
func plus(sum, more Opt[uint64]) Opt[uint64] {
	if v, ok := sum.Get(); ok {
		return Some(v + more.Or(0))
	}
	return sum
}

func (s *Scalars) nodeScope(prev, cur *NodeReading) {
	s.MemFree = toMiB(cur.MemFree)
	s.MemUsed = toMiB(cur.MemUsed())
	s.MemBuffers = toMiB(cur.Buffers)
	s.MemCached = toMiB(cur.CachedAll())
	s.MemActive = toMiB(cur.Active)
	s.MemInactive = toMiB(cur.Inactive)

	p, c, ok := Both(prev.CPU, cur.CPU)
	if !ok || c.User < p.User || c.Nice < p.Nice || c.System < p.System {
		return
	}
	s.UserMillis.Set((c.User + c.Nice - p.User - p.Nice) * millisPerTick)
	s.SystemMillis.Set((c.System - p.System) * millisPerTick)
	share, ok := busyShare(p, c)
	if n, known := cur.CPUs.Get(); ok && known {
		s.CPUUsage.Set(share * float64(n))
	}
}

// jobScope uses the figures of the job if they exist. A job has no buffers: the
// kernel counts them in its file pages. Its disk I/O comes from the io controller or,
// if that is off, from its processes; the I/O of the node is never used instead. secs is
// the time that the difference of CPUUsage spans.
func (s *Scalars) jobScope(prev, cur *JobReading, node *NodeReading, secs float64) {
	s.Processes = cur.Pids
	s.UserMillis = deltaScaled(prev.Counter(prev.CPUUser), cur.Counter(cur.CPUUser), 1000)
	s.SystemMillis = deltaScaled(prev.Counter(prev.CPUSystem), cur.Counter(cur.CPUSystem), 1000)
	if d, ok := Delta(prev.Counter(prev.CPUUsage), cur.Counter(cur.CPUUsage)).Get(); ok {
		if secs > 0 {
			s.CPUUsage.Set(float64(d) / 1e6 / secs)
		} else {
			s.CPUUsage.Set(0)
		}
	}

	s.MemFree = toMiB(cur.memFree(node))
	s.MemUsed = toMiB(cur.MemUsed())
	s.MemCached = toMiB(cur.CachedAll())
	s.MemActive = toMiB(cur.Active)
	s.MemInactive = toMiB(cur.Inactive)

	s.DiskReadBytes = jobIO(prev, [2]Opt[uint64]{prev.IOReadBytes, cur.IOReadBytes}, [2]Opt[uint64]{prev.ProcReadBytes, cur.ProcReadBytes})
	s.DiskWriteBytes = jobIO(prev, [2]Opt[uint64]{prev.IOWriteBytes, cur.IOWriteBytes}, [2]Opt[uint64]{prev.ProcWriteBytes, cur.ProcWriteBytes})
	if cur.Phase == JobPending {
		s.DiskReadBytes.Clear() // it is not known yet whether the controller will exist: the next interval has them
		s.DiskWriteBytes.Clear()
	}
}

// jobIO returns the difference of the controller's counter, or of the processes' counter if the controller was not
// read at the start of the interval. It keeps its counter while the difference still has to span a gap: a controller
// that appears late would count I/O a second time. The first interval after the job was pending begins at zero,
// because the bytes of the intervals before are absent.
func jobIO(prev *JobReading, controller, processes [2]Opt[uint64]) Opt[uint64] {
	fromZero := prev.Phase == JobPending || prev.ioFromZero
	if prev.Phase == JobPending {
		controller[0].Clear()
		processes[0].Clear()
	}
	begin := func(v Opt[uint64]) Opt[uint64] {
		if fromZero && !v.Valid() {
			return Some[uint64](0)
		}
		return v
	}
	c := Delta(begin(controller[0]), controller[1])
	onlyController := c.Valid() && !processes[0].Valid()
	if controller[0].Valid() || onlyController {
		return c
	}
	return Delta(begin(processes[0]), processes[1])
}

func deriveCPU(prev, cur *Snapshot, s *Scalars) CPUMetrics {
	m := CPUMetrics{
		UtilizationPct:    s.CPUUsage,
		PerCorePct:        make([]Opt[float64], len(cur.CPUs)),
		UtimeSecs:         seconds(s.UserMillis),
		StimeSecs:         seconds(s.SystemMillis),
		ProcessCount:      s.Processes,
		ProcessChildCount: cur.Tree.Children,
	}
	i := 0
	for k, c := range cur.CPUs {
		if prev == nil {
			m.PerCorePct[k].Set(0)
			continue
		}
		for i < len(prev.CPUs) && prev.CPUs[i].CPU < c.CPU {
			i++
		}
		if i == len(prev.CPUs) || prev.CPUs[i].CPU != c.CPU {
			continue // it came online in the interval: there is nothing to compare with
		}
		if share, ok := busyShare(prev.CPUs[i].Times, c.Times); ok {
			m.PerCorePct[k].Set(share * 100)
		}
	}
	if prev == nil {
		prev = cur
	}
	m.ProcessCoresUsed = deriveTree(prev, cur).CPUUsage
	return m
}

// DeriveProcess returns what the job, or the process tree of a run without a job, used
// between two snapshots. If prev is nil, all differences are 0.
func DeriveProcess(prev, cur *Snapshot) ProcessScalars {
	if prev == nil {
		prev = cur
	}
	if cur.Job.Phase == JobNone {
		return deriveTree(prev, cur)
	}
	s := DeriveScalars(prev, cur, ScopeJob)
	return ProcessScalars{
		Children: s.Processes, UserMillis: s.UserMillis, SystemMillis: s.SystemMillis, CPUUsage: s.CPUUsage,
		Memory: cur.Job.MemUsed(), DiskReadBytes: s.DiskReadBytes, DiskWriteBytes: s.DiskWriteBytes, GPU: cur.GPU,
	}
}

func deriveTree(prev, cur *Snapshot) ProcessScalars {
	before, now := &prev.Tree, &cur.Tree
	p := ProcessScalars{
		Children: now.Children, Memory: now.PSS, GPU: cur.GPU,
		DiskReadBytes: Delta(before.ReadBytes, now.ReadBytes), DiskWriteBytes: Delta(before.WriteBytes, now.WriteBytes),
	}
	user, sys, ok := Both(Delta(before.CPUUserTicks, now.CPUUserTicks), Delta(before.CPUSystemTicks, now.CPUSystemTicks))
	if !ok {
		return p
	}
	p.UserMillis.Set(user * millisPerTick)
	p.SystemMillis.Set(sys * millisPerTick)
	p.CPUUsage.Set(0)
	if secs := float64(cur.Boot-prev.ticksBoot()) / 1e9; secs > 0 {
		p.CPUUsage.Set(float64(user+sys) / TicksPerSecond / secs)
	}
	return p
}

func deriveMemory(cur *Snapshot, scope Scope, s *Scalars) MemoryMetrics {
	n := &cur.Node
	total, swapTotal, available := n.MemTotal, n.SwapTotal, n.MemAvailable
	var swapUsed Opt[uint64]
	if free, ok := n.SwapFree.Get(); ok && swapTotal.Valid() {
		swapUsed.Set(subFloor(swapTotal.Or(0), free))
	}
	if scope == ScopeJob && cur.Job.Phase != JobNone {
		if limit, ok := cur.Job.MemLimit.Get(); ok && limit != Unlimited {
			total = Some(limit)
			available.Clear()
			if current, ok := cur.Job.MemCurrent.Get(); ok {
				available.Set(subFloor(limit, subFloor(current, cur.Job.CachedAll().Or(0))))
			}
		}
		if cur.Job.isUnseen() {
			total.Clear()
			available.Clear()
		}
		swapUsed = cur.Job.Swap
	}
	m := MemoryMetrics{
		TotalMiB: toMiB(total), FreeMiB: s.MemFree, AvailableMiB: toMiB(available),
		UsedMiB: s.MemUsed, BuffersMiB: s.MemBuffers, CachedMiB: s.MemCached,
		SwapTotalMiB: toMiB(swapTotal), SwapUsedMiB: toMiB(swapUsed),
		ActiveMiB: s.MemActive, InactiveMiB: s.MemInactive,
	}
	m.UsedPct = percent(m.UsedMiB, m.TotalMiB)
	m.SwapUsedPct = percent(m.SwapUsedMiB, m.SwapTotalMiB)
	return m
}

// busyShare returns the share of an interval's ticks that were not idle, 0..1. It is 0 if
// no tick has passed, and not ok if a counter went backwards.
func busyShare(prev, cur CPUTimes) (float64, bool) {
	pb, cb := prev.Busy(), cur.Busy()
	pt, ct := prev.Total(), cur.Total()
	if cb < pb || ct < pt || ct-pt < cb-pb {
		return 0, false
	}
	if ct == pt {
		return 0, true
	}
	return float64(cb-pb) / float64(ct-pt), true
}

// Delta returns how much a counter grew; absent if it was not read twice or fell.
func Delta(prev, cur Opt[uint64]) Opt[uint64] { return deltaScaled(prev, cur, 1) }

// deltaScaled returns the difference of the two values, each divided by unit first. So the differences of a series
// add up to the difference of its ends.
func deltaScaled(prev, cur Opt[uint64], unit uint64) Opt[uint64] {
	p, c, ok := Both(prev, cur)
	if !ok || c < p {
		return None[uint64]()
	}
	return Some(c/unit - p/unit)
}

func rate(prev, cur Opt[uint64], secs float64) Opt[float64] {
	d, ok := Delta(prev, cur).Get()
	if !ok {
		return None[float64]()
	}
	if secs <= 0 {
		return Some(0.0)
	}
	return Some(float64(d) / secs)
}

func seconds(millis Opt[uint64]) Opt[float64] {
	return Map(millis, func(v uint64) float64 { return float64(v) / 1000 })
}

func percent(part, whole Opt[uint64]) Opt[float64] {
	p, ok1 := part.Get()
	w, ok2 := whole.Get()
	switch {
	case ok2 && w == 0:
		return Some(0.0) // T-MEM-03, T-GPU-04: 0 of 0 is 0 %, also if the part was not read
	case !ok1 || !ok2:
		return None[float64]()
	}
	return Some(float64(p) / float64(w) * 100)
}

func toMiB(v Opt[uint64]) Opt[uint64] {
	return Map(v, func(bytes uint64) uint64 { return bytes / mib })
}

func text(s string) Opt[string] {
	if s == "" {
		return None[string]()
	}
	return Some(s)
}

func subFloor(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
