package html

import (
	"cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// figure is a group of plots, one per run, with the same axes.
type figure struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Unit  string `json:"unit"` // "cores", "bytes", "bytes/s", "%", "W", "count", "lanes"
	Note  string `json:"note,omitempty"`
	// IsMean: a value is the mean of the interval that ends at its time; else it is the value
	// at that time.
	IsMean bool `json:"mean,omitempty"`
}

// The keys of the figures.
const (
	cpuFigure      = "cpu"
	memoryFigure   = "memory"
	ioFigure       = "io"
	gpuBusyFigure  = "gpu"
	gpuMemFigure   = "gpumemory"
	gpuPowerFigure = "gpupower"
	pressureFigure = "pressure"
	networkFigure  = "network"
	powerFigure    = "power"
	processFigure  = "processes"
	lanesFigure    = "steps"
)

// figures are all figures in the order of the page.
var figures = [...]figure{
	{cpuFigure, "CPU cores in use", "cores", "The mean of each interval; within an interval more cores can have been busy.", true},
	{memoryFigure, "Memory", "bytes", "", false},
	{lanesFigure, "Steps and tasks", "lanes", "From the first to the last reading that has them.", false},
	{gpuBusyFigure, "GPUs: busy", "%", "The share of time in which something ran on the GPU; it is not a measure of efficiency.", false},
	{gpuMemFigure, "GPUs: memory", "bytes", "", false},
	{gpuPowerFigure, "GPUs: power", "W", "", false},
	{ioFigure, "Disk I/O", "bytes/s", "", true},
	{pressureFigure, "Pressure and throttling", "%", "The share of time in which some of the job's tasks waited. Throttling is summed over CPUs and can exceed 100 %.", true},
	{networkFigure, "Network of the whole node", "bytes/s", "With the traffic of other jobs.", true},
	{powerFigure, "Power", "W", "Of everything that ran on the node. Domains overlap: a package includes its cores. The job's share is divided by CPU time or instructions, and is without the power of the idle node.", true},
	{processFigure, "Processes and threads", "count", "", false},
}

const kib = 1024

func (c *collector) cpu(prev, s *rt.Snapshot, secs float64) {
	if prev == nil || secs <= 0 {
		return
	}
	used, system := c.cpuBetween(prev, s)
	c.put(cpuFigure, "in use", 0.001, used)
	if ms, ok := system.Get(); ok && used.Valid() {
		c.put(cpuFigure, "of these in the kernel", 0.001, rt.Some(min(float64(ms)/1000/secs, used.Or(0))))
	}
}

func (c *collector) cpuBetween(prev, s *rt.Snapshot) (cores rt.Opt[float64], systemMillis rt.Opt[uint64]) {
	if c.scope == report.ScopeNode {
		d := rt.DeriveScalars(prev, s, rt.ScopeNode)
		return d.CPUUsage, d.SystemMillis
	}
	d := rt.DeriveProcess(prev, s)
	return d.CPUUsage, d.SystemMillis
}

// memory adds the parts of the memory. The kernel counts shared memory as a part of the file pages,
// so it has no line of its own.
func (c *collector) memory(prev, s *rt.Snapshot) {
	put := func(name string, bytes rt.Opt[uint64]) { c.put(memoryFigure, name, kib, rt.Scaled(bytes, 1)) }
	switch c.scope {
	case report.ScopeNode:
		put("in use", s.Node.MemInUse())
		put("file cache", s.Node.CachedAll())
		return
	case report.ScopeTree:
		memory, isAtMost := s.Tree.Memory(&s.Node)
		if isAtMost {
			put("at most in use", memory)
		} else {
			put("in use", memory)
		}
		return
	}
	j := &s.Job
	if j.Phase != rt.JobPresent {
		return
	}
	put("total", j.MemCurrent)
	if prev != nil {
		put("highest since the previous reading", j.MemIntervalPeak)
	}
	put("anonymous", j.Anon)
	put("shared", j.Shmem)
	put("file cache", rt.Delta(j.Shmem, j.File))
	put("kernel", j.Kernel)
	put("swap", j.Swap)
}

func (c *collector) io(prev, s *rt.Snapshot, secs float64) {
	if prev == nil || secs <= 0 {
		return
	}
	node := rt.DeriveScalars(prev, s, rt.ScopeNode)
	read, written := node.DiskReadBytes, node.DiskWriteBytes
	if c.scope != report.ScopeNode {
		d := rt.DeriveProcess(prev, s)
		read, written = d.DiskReadBytes, d.DiskWriteBytes
	}
	c.put(ioFigure, "read", 1, perSecond(read, secs))
	c.put(ioFigure, "written", 1, perSecond(written, secs))
	c.put(networkFigure, "received", 1, perSecond(rt.Delta(prev.Node.NetRxBytes, s.Node.NetRxBytes), secs))
	c.put(networkFigure, "sent", 1, perSecond(rt.Delta(prev.Node.NetTxBytes, s.Node.NetTxBytes), secs))
}

// gpus adds the job's GPUs, and the use by its processes of GPUs that are not known to be the job's.
func (c *collector) gpus(s *rt.Snapshot) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		name := "GPU " + printable.Text(cmp.Or(g.Host, g.UUID))
		if c.scope == report.ScopeJob && !g.InJob.Or(false) {
			c.gpuProcesses(name, g.UUID, s.GPUProcesses)
			continue
		}
		c.put(gpuBusyFigure, name, 0.1, g.Utilization)
		c.put(gpuMemFigure, name, kib, rt.Scaled(g.VRAMUsed, 1))
		c.put(gpuPowerFigure, name, 0.1, g.Power)
	}
}

// gpuProcesses adds what the job's processes used of a GPU. A sum is absent if a part of it is.
func (c *collector) gpuProcesses(name, uuid string, all []rt.GPUProcessReading) {
	var busy, bytes float64
	count, isBusyRead, isMemoryRead := 0, true, true
	for i := range all {
		p := &all[i]
		if p.UUID != uuid {
			continue
		}
		count++
		busy, isBusyRead = busy+p.Utilization.Or(0), isBusyRead && p.Utilization.Valid()
		bytes, isMemoryRead = bytes+float64(p.VRAMUsed.Or(0)), isMemoryRead && p.VRAMUsed.Valid()
	}
	if count > 0 && isBusyRead {
		c.put(gpuBusyFigure, name, 0.1, rt.Some(min(busy, 100)))
	}
	if count > 0 && isMemoryRead {
		c.put(gpuMemFigure, name, kib, rt.Some(bytes))
	}
}

func (c *collector) pressure(prev, s *rt.Snapshot, secs float64) {
	if prev == nil || secs <= 0 {
		return
	}
	was, is := &prev.Job, &s.Job
	put := func(name string, before, after rt.Opt[uint64]) {
		const microsToPercent = 100.0 / 1e6
		c.put(pressureFigure, name, 0.01, rt.Scaled(perSecond(rt.Delta(before, after), secs), microsToPercent))
	}
	put("waited for a CPU", was.CPUStallSome, is.CPUStallSome)
	put("waited for memory", was.MemStallSome, is.MemStallSome)
	put("waited for I/O", was.IOStallSome, is.IOStallSome)
	put("throttled", was.CPUThrottled, is.CPUThrottled)
}

// power adds each domain of the node; GPUs have a figure of their own.
func (c *collector) power(prev, s *rt.Snapshot, secs float64) {
	if prev == nil || secs <= 0 {
		return
	}
	for i := range s.Energy {
		e := &s.Energy[i]
		if e.Kind == rt.EnergyGPU {
			continue
		}
		watts := e.Power
		if !watts.Valid() {
			watts = rt.Scaled(perSecond(e.UsedSince(prev, i), secs), 1e-6)
		}
		c.put(powerFigure, printable.Text(e.Domain), 0.1, watts)
	}
	c.put(powerFigure, "the job's share", 0.1, c.share.Between(prev, s))
}

func (c *collector) processes(s *rt.Snapshot) {
	n, threads := s.Job.Pids, s.Job.Threads
	switch c.scope {
	case report.ScopeTree:
		n = s.Tree.Children
	case report.ScopeNode:
		n = s.Node.Processes
	}
	c.put(processFigure, "processes", 1, rt.Scaled(n, 1))
	c.put(processFigure, "threads", 1, rt.Scaled(threads, 1))
}

func perSecond(v rt.Opt[uint64], secs float64) rt.Opt[float64] {
	return rt.Map(v, func(n uint64) float64 { return float64(n) / secs })
}
