package report

import (
	"cmp"

	"github.com/resource-tracker/rt"
)

// total adds up the growth of one counter. A reading below the previous one restarts it and
// adds nothing, because the interval is absent.
type total struct {
	last   rt.Opt[uint64]
	sum    uint64
	spans  bool // a difference was taken
	origin rt.Opt[uint64]
}

// add takes the next reading. If it is absent, the next difference spans the gap.
func (t *total) add(v rt.Opt[uint64]) {
	cur, ok := v.Get()
	if !ok {
		return
	}
	last, known := t.last.Get()
	if !known {
		last, known = t.origin.Get()
	}
	if known && cur >= last {
		t.sum += cur - last
		t.spans = true
	}
	t.last = v
}

func (t *total) value() rt.Opt[uint64] {
	if !t.spans {
		return rt.None[uint64]()
	}
	return rt.Some(t.sum)
}

// scaled returns the sum times unit.
func (t *total) scaled(unit float64) rt.Opt[float64] { return rt.Scaled(t.value(), unit) }

// raise keeps the largest value.
func raise[T cmp.Ordered](to *rt.Opt[T], v rt.Opt[T]) {
	var zero T
	if x, ok := v.Get(); ok && x >= to.Or(zero) {
		*to = v
	}
}

// entry returns the value of a key, a new one if there is none.
func entry[K comparable, V any](m map[K]*V, key K) *V {
	if m[key] == nil {
		m[key] = new(V)
	}
	return m[key]
}

func minus(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	x, ok := a.Get()
	if !ok || !b.Valid() {
		return rt.None[uint64]()
	}
	return rt.Some(x - min(x, b.Or(0)))
}

// usage is what one scope used, in the units of its counters.
type usage struct {
	cpu, user, system, throttled total
	read, write, oomKills        total
	procRead, procWrite          total // as the processes counted
	stepd                        total // slurmstepd's CPU time
	suspended                    total
	faults, major                total
	stalls                       [6]total       // some and full of CPU, memory, I/O
	peak, memory                 rt.Opt[uint64] // highest, from the kernel and from the readings; bytes
	mostMemory                   rt.Opt[uint64] // highest of what can be more than the memory; bytes
	intervalPeak                 rt.Opt[uint64] // highest, from the kernel for each interval; bytes
	anon, shared, file           rt.Opt[uint64] // highest; bytes
	cached                       rt.Opt[uint64] // highest of the node; bytes
	processes, threads           rt.Opt[uint64] // highest
	limit                        rt.Opt[uint64] // bytes, the last one that was read
}

type counter struct {
	total *total
	next  rt.Opt[uint64]
}

// counters are the counters of a job's cgroup since its creation, each with a reading.
func (u *usage) counters(j *rt.JobReading) [19]counter {
	return [...]counter{
		{&u.cpu, j.CPUUsage}, {&u.user, j.CPUUser}, {&u.system, j.CPUSystem}, {&u.throttled, j.CPUThrottled},
		{&u.read, j.IOReadBytes}, {&u.write, j.IOWriteBytes}, {&u.oomKills, j.EventsOOMKill},
		{&u.procRead, j.ProcReadBytes}, {&u.procWrite, j.ProcWriteBytes}, {&u.stepd, j.StepdCPUUsage},
		{&u.suspended, j.Suspended}, {&u.faults, j.PageFaults}, {&u.major, j.MajorFaults}, {&u.stalls[0], j.CPUStallSome}, {&u.stalls[1], j.CPUStallFull},
		{&u.stalls[2], j.MemStallSome}, {&u.stalls[3], j.MemStallFull}, {&u.stalls[4], j.IOStallSome}, {&u.stalls[5], j.IOStallFull},
	}
}

func (u *usage) startAtZero() {
	for _, c := range u.counters(&rt.JobReading{}) {
		if !c.total.last.Valid() {
			c.total.origin.Set(0)
		}
	}
}

func (u *usage) addJob(j *rt.JobReading) {
	if j.Phase == rt.JobPending {
		u.startAtZero()
		if j.ProcWriteBytes.Valid() { // the job may never get a cgroup
			u.procRead.add(j.ProcReadBytes)
			u.procWrite.add(j.ProcWriteBytes)
		}
		return
	}
	for _, c := range u.counters(j) {
		c.total.add(c.next)
	}
	raise(&u.intervalPeak, j.MemIntervalPeak)
	raise(&u.threads, j.Threads)
	raise(&u.peak, j.MemPeak)
	raise(&u.memory, j.MemCurrent)
	raise(&u.anon, j.Anon)
	raise(&u.shared, j.Shmem)
	raise(&u.file, minus(j.File, j.Shmem))
	raise(&u.processes, j.Pids)
	u.limit = cmp.Or(j.MemLimit, u.limit)
}

func (u *usage) addTree(t *rt.TreeReading, n *rt.NodeReading) {
	if user, system, ok := rt.Both(t.CPUUserTicks, t.CPUSystemTicks); ok {
		u.cpu.add(rt.Some(user + system))
	}
	u.user.add(t.CPUUserTicks)
	u.system.add(t.CPUSystemTicks)
	u.procRead.add(t.ReadBytes)
	u.procWrite.add(t.WriteBytes)
	memory, isAtMost := t.Memory(n)
	switch {
	case memory.Or(0) == 0: // a process that has ended has no memory any more
	case isAtMost:
		raise(&u.mostMemory, memory)
	default:
		raise(&u.memory, memory)
	}
	if children, ok := t.Children.Get(); ok {
		raise(&u.processes, rt.Some(children+1))
	}
}

func (u *usage) addNode(n *rt.NodeReading) {
	if c, ok := n.CPU.Get(); ok {
		u.cpu.add(rt.Some(c.Busy()))
		u.user.add(rt.Some(c.User + c.Nice))
		u.system.add(rt.Some(c.System))
	}
	u.read.add(n.DiskReadBytes)
	u.write.add(n.DiskWriteBytes)
	raise(&u.memory, n.MemInUse())
	raise(&u.cached, n.CachedAll())
	raise(&u.shared, n.Shmem)
	raise(&u.file, minus(n.Cached, n.Shmem))
	raise(&u.processes, n.Processes)
}

// maxColumns bounds the columns of a series: one line of a terminal with its legend.
const maxColumns = 60

// point is one interval of a run, in seconds since its first reading.
type point struct {
	from, to float64
	cores    rt.Opt[float64] // mean of the interval
	memory   rt.Opt[uint64]  // bytes at its end
}

// resample distributes the intervals to columns of equal length. CPU time is divided in
// proportion to the overlap of interval and column; memory is the highest reading.
func resample(points []point) Series {
	var s Series
	if len(points) == 0 {
		return s
	}
	begin, end := points[0].from, points[len(points)-1].to
	n := min(len(points), maxColumns)
	s.ColumnSecs = (end - begin) / float64(n)
	s.Cores = make([]rt.Opt[float64], n)
	s.MemoryBytes = make([]rt.Opt[float64], n)
	if s.ColumnSecs <= 0 {
		return s
	}
	weight := make([]float64, n)
	for _, p := range points {
		first := min(int((p.from-begin)/s.ColumnSecs), n-1)
		for c := first; c < n; c++ {
			// The conversions prevent a fused multiply-add, which only some architectures
			// have: the digits must be the same on all.
			left := begin + float64(float64(c)*s.ColumnSecs)
			overlap := min(p.to, left+s.ColumnSecs) - max(p.from, left)
			if overlap <= 1e-9*s.ColumnSecs {
				if left >= p.to {
					break
				}
				continue
			}
			if v, ok := p.cores.Get(); ok {
				s.Cores[c].Set(s.Cores[c].Or(0) + float64(v*overlap))
				weight[c] += overlap
			}
			raise(&s.MemoryBytes[c], rt.Scaled(p.memory, 1))
		}
	}
	for c := range s.Cores {
		if weight[c] > 0 {
			s.Cores[c].Set(s.Cores[c].Or(0) / weight[c])
		}
	}
	return s
}
