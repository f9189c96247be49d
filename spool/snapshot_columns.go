package spool

import (
	"slices"
	"sync"

	"github.com/resource-tracker/rt"
)

// kib is the unit of the columns with names that end in _kib.
const kib = 1024

// figureColumn is a column of the table snapshot. The name includes the unit.
type figureColumn struct {
	column
	isCounter bool // a fall means a reset
	isDerived bool // rt.DeriveScalars or rt.DeriveProcess uses it
}

// Fields of a snapshot that are stored in another unit or type.
type (
	// micros is a time in nanoseconds with a column in microseconds.
	micros struct{ *int64 }
	// microsOrNone is micros whose 0 means that it was not read.
	microsOrNone struct{ *int64 }
	// tick is one of the counters of a CPU, which are read together.
	tick struct {
		of *rt.Opt[rt.CPUTimes]
		at func(*rt.CPUTimes) *uint64
	}
)

var tickColumns = [...]struct {
	name string
	at   func(*rt.CPUTimes) *uint64
}{
	{"node_cpu_user_ticks", func(t *rt.CPUTimes) *uint64 { return &t.User }},
	{"node_cpu_nice_ticks", func(t *rt.CPUTimes) *uint64 { return &t.Nice }},
	{"node_cpu_system_ticks", func(t *rt.CPUTimes) *uint64 { return &t.System }},
	{"node_cpu_idle_ticks", func(t *rt.CPUTimes) *uint64 { return &t.Idle }},
	{"node_cpu_iowait_ticks", func(t *rt.CPUTimes) *uint64 { return &t.IOWait }},
	{"node_cpu_irq_ticks", func(t *rt.CPUTimes) *uint64 { return &t.IRQ }},
	{"node_cpu_softirq_ticks", func(t *rt.CPUTimes) *uint64 { return &t.SoftIRQ }},
	{"node_cpu_steal_ticks", func(t *rt.CPUTimes) *uint64 { return &t.Steal }},
}

// headColumns are the columns that each snapshot has.
var headColumns = [...]string{columnSeq: "seq", columnBoot: "boot_us", "wall_us", columnReason: "reason", columnPhase: "job_phase"}

const columnSeq, columnBoot, columnReason, columnPhase = 0, 1, 3, 4

// figureColumns lists the columns after headColumns, which hold the figures of s.
func figureColumns(s *rt.Snapshot) []figureColumn {
	var list []figureColumn
	for _, t := range tickColumns {
		list = append(list, figureColumn{column{t.name, tick{&s.Node.CPU, t.at}}, true, true})
	}
	list = appendFigures(list, "node", &s.Node, rt.NodeFigures[:])
	list = appendFigures(list, "job", &s.Job, rt.JobFigures[:])
	list = appendFigures(list, "tree", &s.Tree, rt.TreeFigures[:])
	list = appendFigures(list, "job_gpu", &s.GPU, rt.GPUUseFigures[:])
	return append(list,
		figureColumn{column{"node_read_boot_us", microsOrNone{&s.Node.ReadBoot}}, false, true},
		figureColumn{column{rt.NodeGPUUsage.Column("node"), rt.NodeGPUUsage.Field(&s.Node)}, false, true},
		figureColumn{column{rt.GPUUseUsage.Column("job_gpu"), rt.GPUUseUsage.Field(&s.GPU)}, false, true},
	)
}

func appendFigures[T any](list []figureColumn, noun string, of *T, figures []rt.Figure[T, uint64]) []figureColumn {
	for i := range figures {
		f := &figures[i]
		var field any = f.Field(of)
		if f.Unit == rt.KiB {
			field = inKiB{f.Field(of)}
		}
		list = append(list, figureColumn{column{f.Column(noun), field}, f.Kind == rt.Counter, f.Derived})
	}
	return list
}

// snapshotColumns lists all columns of the table snapshot: headColumns, then the figures that the
// argument of selects.
func snapshotColumns(s *rt.Snapshot, of figureChoice) []column {
	list := []column{
		{headColumns[0], &s.Seq}, {headColumns[1], micros{&s.Boot}}, {headColumns[2], micros{&s.Wall}},
		{headColumns[3], (*uint8)(&s.Reason)}, {headColumns[4], (*uint8)(&s.Job.Phase)},
	}
	for _, c := range figureColumns(s) {
		if of(&c) {
			list = append(list, c.column)
		}
	}
	return list
}

// figureChoice selects figures.
type figureChoice func(*figureColumn) bool

func everyFigure(*figureColumn) bool { return true }

// rateFigures are the figures that rt.DeriveScalars and rt.DeriveProcess use, which is three fifths of all.
func rateFigures(c *figureColumn) bool { return c.isDerived }

// usageFigures are the figures of Reader.Usage.
func usageFigures(c *figureColumn) bool {
	_, isTick := c.field.(tick)
	return isTick || slices.Contains(usageNames[:], c.name)
}

// usageNames are the columns of Reader.Usage next to the ticks of the node.
var usageNames = [...]string{
	"node_cpus", "node_mem_total_kib", "node_mem_free_kib", "node_buffers_kib", "node_cached_kib", "node_sreclaimable_kib", "node_huge_free_kib",
	"job_cpu_usage_us", "job_mem_current_kib", "job_mem_peak_kib", "job_mem_limit_kib", "job_mem_interval_peak_kib", "job_events_oom_kill", "job_suspended_us",
	"tree_cpu_user_ticks", "tree_cpu_system_ticks", "tree_rss_kib", "tree_pss_kib",
}

// counterColumns are the places in snapshotColumns of the counters.
var counterColumns = sync.OnceValue(func() []int {
	var list []int
	for i, c := range figureColumns(new(rt.Snapshot)) {
		if c.isCounter {
			list = append(list, len(headColumns)+i)
		}
	}
	return list
})
