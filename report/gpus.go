package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
)

// GPU is a GPU or MIG instance of the job: allocated to it, whether it was used or not, or used by its
// processes. A run without a job has all GPUs of the node.
type GPU struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
	Host string `json:"host_id,omitempty"`
	GPUPart
	IsMIG      bool            `json:"mig,omitempty"` // a MIG instance: no driver reports how busy it is
	MaxBusyPct rt.Opt[float64] `json:"max_busy_pct"`
	// BusyOf is "time": the driver sampled without a gap; or "readings": each of the BusyReadings has one short sample.
	BusyOf       string `json:"busy_of,omitempty"`
	BusyReadings int    `json:"busy_readings,omitempty"`
	// The highest reading of the memory in use: a peak between readings is higher.
	VRAMPeakBytes  rt.Opt[uint64]  `json:"vram_peak_bytes"`
	VRAMPeakMark   Mark            `json:"vram_peak_mark,omitempty"`
	VRAMTotalBytes rt.Opt[uint64]  `json:"vram_total_bytes"`
	MeanWatts      rt.Opt[float64] `json:"mean_watts"`
	// What the processes of the job used of it, as far as the driver reports that.
	ProcessVRAMPeakBytes rt.Opt[uint64] `json:"process_vram_peak_bytes"`
	// ProcessVRAMPeakMark is empty only for a single process whose peak the driver's accounting has.
	ProcessVRAMPeakMark Mark `json:"process_vram_peak_mark,omitempty"`
}

// Busy is how busy the job kept the GPU. Of a GPU that may be of others, it is what the job's processes did.
func (g *GPU) Busy() rt.Opt[float64] {
	if g.isOfOthers() {
		return g.ProcessBusyPct
	}
	return g.BusyPct
}

// VRAMPeak is the peak of the memory that the job used, as Busy.
func (g *GPU) VRAMPeak() (rt.Opt[uint64], Mark) {
	if g.isOfOthers() {
		return g.ProcessVRAMPeakBytes, g.ProcessVRAMPeakMark
	}
	return g.VRAMPeakBytes, g.VRAMPeakMark
}

// isOfOthers reports whether the GPU is not known to be allocated to the job whose processes used it.
func (g *GPU) isOfOthers() bool { return !g.InJob.Or(false) && g.Processes > 0 }

// BusyText formats how busy the job kept the GPU.
func (g *GPU) BusyText() string {
	busy := g.Busy()
	switch {
	case busy.Valid() && g.BusyOf == busyOfReadings && !g.isOfOthers():
		return Number(busy, "%.0f %%") + " in " + plural(g.BusyReadings, "reading")
	case !busy.Valid() && g.IsMIG:
		return "not measured with MIG"
	}
	return Number(busy, "%.0f %%")
}

// VRAMText formats the peak of the memory that the job used.
func (g *GPU) VRAMText() string {
	peak, mark := g.VRAMPeak()
	return mark.Of(Size(peak))
}

const (
	busyOfTime     = "time"
	busyOfReadings = "readings"
)

// mean is a mean over time: each reading counts for the interval before it.
type mean struct{ sum, secs float64 }

func (m *mean) add(v rt.Opt[float64], secs float64) {
	if x, ok := v.Get(); ok && secs > 0 {
		m.sum += float64(x * secs)
		m.secs += secs
	}
}

func (m *mean) value() rt.Opt[float64] {
	if m.secs == 0 {
		return rt.None[float64]()
	}
	return rt.Some(m.sum / m.secs)
}

type gpuTally struct {
	GPU
	part               slice
	order              int
	busy, watts        mean
	processBusy        mean
	isProcessBusyShort bool            // of a reading with a process
	pids               map[uint64]bool // the value: the driver's accounting has its final peak
	hasSamples         bool            // the driver samples without a gap
}

type gpuTallies map[string]*gpuTally

// add takes a reading; secs is the interval before it.
func (t gpuTallies) add(s *rt.Snapshot, secs float64) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		of := t[g.UUID]
		if of == nil {
			of = &gpuTally{order: len(t), pids: map[uint64]bool{}}
			t[g.UUID] = of
		}
		of.UUID, of.Name, of.Host = g.UUID, g.Name, g.Host
		of.part.set(g.Detail)
		of.IsMIG, of.hasSamples = of.part.card != "", g.Detail[rt.BusyOf] == rt.BusyOfInterval
		of.InJob = cmp.Or(g.InJob, of.InJob)
		of.VRAMTotalBytes = cmp.Or(g.VRAMTotal, of.VRAMTotalBytes)
		raise(&of.VRAMPeakBytes, g.VRAMUsed)
		raise(&of.MaxBusyPct, g.Utilization)
		of.busy.add(g.Utilization, secs)
		if g.Utilization.Valid() {
			of.BusyReadings++
		}
		of.watts.add(g.Power, secs)
		if isRead := g.VRAMUsed.Valid() || g.Utilization.Valid(); isRead {
			of.addProcesses(s.GPUProcesses, secs)
		}
	}
}

// addProcesses takes the processes of a reading of the GPU.
func (g *gpuTally) addProcesses(all []rt.GPUProcessReading, secs float64) {
	busy := 0.0
	var vram uint64
	isVRAMRead := true
	for i := range all {
		p := &all[i]
		if p.UUID != g.UUID {
			continue
		}
		g.pids[p.PID] = p.VRAMPeak.Valid()
		percent, ok := p.Utilization.Get()
		g.isProcessBusyShort = g.isProcessBusyShort || !ok
		busy += percent
		bytes, ok := p.VRAMUsed.Get()
		isVRAMRead = isVRAMRead && ok
		vram += bytes
		raise(&g.ProcessVRAMPeakBytes, p.VRAMPeak)
	}
	g.processBusy.add(rt.Some(min(busy, 100)), secs)
	if isVRAMRead {
		raise(&g.ProcessVRAMPeakBytes, rt.Some(vram))
	}
}

// figures returns the figures of all readings.
func (g *gpuTally) figures() GPU {
	out := g.GPU
	out.BusyPct, out.MeanWatts, out.Processes = g.busy.value(), g.watts.value(), uint64(len(g.pids))
	if out.BusyPct.Valid() {
		out.BusyOf = busyOfReadings
		if g.hasSamples {
			out.BusyOf = busyOfTime
		}
	}
	if out.Processes > 0 && !g.isProcessBusyShort {
		out.ProcessBusyPct = g.processBusy.value()
	}
	if out.Processes == 0 {
		out.ProcessVRAMPeakBytes = rt.None[uint64]()
	}
	raise(&out.VRAMPeakBytes, out.ProcessVRAMPeakBytes)
	isExact := len(g.pids) == 1 && slices.Collect(maps.Values(g.pids))[0]
	out.VRAMPeakMark, out.ProcessVRAMPeakMark = atLeastIf(out.VRAMPeakBytes.Valid()), atLeastIf(out.ProcessVRAMPeakBytes.Valid() && !isExact)
	return out
}

func atLeastIf(is bool) Mark {
	if is {
		return AtLeast
	}
	return Exact
}

// list returns the job's GPUs, or all GPUs for a run without a job. If the job's cgroup was not read, the list has
// every GPU that may belong to the job.
func (t gpuTallies) list(scope Scope, hasJob bool) []GPU {
	out := []GPU{}
	for _, of := range t.sorted() {
		isListed := !hasJob || of.InJob.Or(true)
		if scope == ScopeJob {
			isListed = of.InJob.Or(false)
		}
		if isUsed := len(of.pids) > 0; isListed || isUsed {
			out = append(out, of.figures())
		}
	}
	return out
}

// sorted returns the GPUs in the order in which they were first read.
func (t gpuTallies) sorted() []*gpuTally {
	return slices.SortedFunc(maps.Values(t), func(a, b *gpuTally) int { return cmp.Compare(a.order, b.order) })
}

// unreadGPUs is the number of GPUs that are allocated to the job and are not known to be among GPUs.
func (s *Summary) unreadGPUs() uint64 {
	allocated, found := rt.CountGPUs(s.Run.GPUs), uint64(0)
	for i := range s.GPUs {
		if s.GPUs[i].InJob.Or(false) {
			found++
		}
	}
	return allocated - min(found, allocated)
}

// gpus writes a line for each GPU of the job, also for unused ones.
func (p *runPage) gpus() {
	for i := range p.sum.GPUs {
		g := &p.sum.GPUs[i]
		about := fmt.Sprintf("busy %s", g.BusyText())
		if !g.isOfOthers() && g.MaxBusyPct.Valid() {
			about += Number(g.MaxBusyPct, " (max %.0f %%)")
		}
		about += ", memory " + g.VRAMText() + " of " + Size(g.VRAMTotalBytes) + onlyIf(g.vramPct().Valid(), Number(g.vramPct(), " (%.0f %%)"))
		switch {
		case !g.isOfOthers():
			about += onlyIf(g.MeanWatts.Valid(), Number(g.MeanWatts, ", %.0f W"))
		case g.InJob.Valid():
			about = "not allocated; the job's processes: " + about
		default:
			about = "the job's processes: " + about
		}
		p.list(onlyIf(i == 0, "GPUs"), fmt.Sprintf("%s %s: %s", Plain(gpuName(g)), Plain(g.Name), about))
	}
	unread := p.sum.unreadGPUs()
	switch {
	case p.sum.Scope != ScopeJob || unread == 0:
	case len(p.sum.GPUs) == 0:
		p.line("GPUs", "index %s allocated; nothing was read of them", Plain(p.sum.Run.GPUs))
	default:
		p.line("", "index %s allocated; %d of these not found", Plain(p.sum.Run.GPUs), unread)
	}
}

// vramPct is the peak of the memory that the job used in percent of all of the GPU's.
func (g *GPU) vramPct() rt.Opt[float64] {
	peak, _ := g.VRAMPeak()
	all := g.VRAMTotalBytes.Or(0)
	if all == 0 || !peak.Valid() {
		return rt.None[float64]()
	}
	return rt.Some(float64(peak.Or(0)) / float64(all) * 100)
}

func gpuName(g *GPU) string { return cmp.Or(g.Host, g.UUID) }
