package spool

import (
	"slices"
	"sync"

	"github.com/resource-tracker/rt"
)

// kib is the unit of the columns with names that end in _kib.
const kib = 1024

// The columns of the figures of a snapshot: the boot clock and the difference of the real
// time clock from it, the ticks of the node, the figures that are integers, and the two that
// are fractions. Fractions are stored as they are, not as differences.
const (
	colBoot, colClock = 0, 1
	colTicks          = 2
	numTicks          = 8
	colOpt            = colTicks + numTicks
	numOpt            = len(rt.NodeFigures) + len(rt.JobFigures) + len(rt.TreeFigures) + len(rt.GPUUseFigures)
	colReadBoot       = colOpt + numOpt
	numSums           = colReadBoot + 1 // the differences
	colNodeGPU        = numSums
	numCols           = numSums + 2
)

// The tables that hold the columns. The first has a row for each snapshot, the others only
// if one of their figures changed.
const (
	inMoving  = int(rt.Moving)
	numTables = 4
)

// deltaTables are the names of the tables.
var deltaTables = [numTables]string{rt.Moving: "snapshot_delta", rt.Steady: "steady_delta", rt.TreeOnly: "tree_delta", rt.GPUOnly: "gpu_delta"}

// deltaColumn describes a column. The name includes the unit.
type deltaColumn struct {
	name    string
	table   int
	unit    int64 // bytes of a stored unit: 1024 for a column in KiB
	counter bool  // whether a fall means a reset
	derived bool
}

var deltaColumns = func() (columns [numCols]deltaColumn) {
	list := append(columns[:0], deltaColumn{name: "boot_us", unit: 1, derived: true}, deltaColumn{name: "clock_us", unit: 1, derived: true})
	for _, name := range [numTicks]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
		list = append(list, deltaColumn{name: "node_cpu_" + name + "_ticks", unit: 1, counter: true, derived: true})
	}
	list = appendColumns(list, "node", rt.NodeFigures[:])
	list = appendColumns(list, "job", rt.JobFigures[:])
	list = appendColumns(list, "tree", rt.TreeFigures[:])
	list = appendColumns(list, "job_gpu", rt.GPUUseFigures[:])
	list = append(list, deltaColumn{name: "node_read_boot_us", unit: 1, derived: true})
	list = appendColumns(list, "node", []rt.Figure[rt.NodeReading, float64]{rt.NodeGPUUsage})
	appendColumns(list, "job_gpu", []rt.Figure[rt.GPUUse, float64]{rt.GPUUseUsage})
	return columns
}()

func appendColumns[T, V any](list []deltaColumn, noun string, figures []rt.Figure[T, V]) []deltaColumn {
	for i := range figures {
		f := &figures[i]
		c := deltaColumn{name: f.Column(noun), table: int(f.Storage), unit: 1, counter: f.Kind == rt.Counter, derived: f.Derived}
		if f.Unit == rt.KiB {
			c.unit = kib
		}
		list = append(list, c)
	}
	return list
}

// tableColumns lists the columns of each table, rateColumns those that rt.DeriveScalars and
// rt.DeriveProcess use, which is three fifths of all, and usageColumns those of Reader.Usage. A Writer
// needs the first one only.
var (
	tableColumns = columnsOfTables(func(int, *deltaColumn) bool { return true })
	rateColumns  = sync.OnceValue(func() *[numTables][]int {
		of := columnsOfTables(func(_ int, c *deltaColumn) bool { return c.derived })
		return &of
	})
	usageColumns = sync.OnceValue(func() *[numTables][]int {
		of := columnsOfTables(func(i int, c *deltaColumn) bool { return i < colOpt || slices.Contains(usageNames[:], c.name) })
		return &of
	})
)

// usageNames are the columns of Reader.Usage next to the clocks and ticks.
var usageNames = [...]string{
	"node_cpus", "node_mem_total_kib", "node_mem_free_kib", "node_buffers_kib", "node_cached_kib", "node_sreclaimable_kib", "node_huge_free_kib",
	"job_cpu_usage_us", "job_mem_current_kib", "job_mem_peak_kib", "job_mem_limit_kib", "job_mem_interval_peak_kib", "job_events_oom_kill", "job_suspended_us",
	"tree_cpu_user_ticks", "tree_cpu_system_ticks", "tree_rss_kib", "tree_pss_kib",
}

func columnsOfTables(has func(int, *deltaColumn) bool) (of [numTables][]int) {
	for i := range deltaColumns {
		if c := &deltaColumns[i]; has(i, c) {
			of[c.table] = append(of[c.table], i)
		}
	}
	return of
}

// columnNames lists the names of some columns.
func columnNames(columns []int) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = deltaColumns[c].name
	}
	return list
}

// optFields lists the figures of s that are integers in the order of the columns.
func optFields(s *rt.Snapshot) (fields [numOpt]*rt.Opt[uint64]) {
	list := appendFields(fields[:0], &s.Node, rt.NodeFigures[:])
	list = appendFields(list, &s.Job, rt.JobFigures[:])
	list = appendFields(list, &s.Tree, rt.TreeFigures[:])
	appendFields(list, &s.GPU, rt.GPUUseFigures[:])
	return fields
}

func appendFields[T any](list []*rt.Opt[uint64], of *T, figures []rt.Figure[T, uint64]) []*rt.Opt[uint64] {
	for i := range figures {
		list = append(list, figures[i].Field(of))
	}
	return list
}

// tickFields lists the tick counters in the order of the columns.
func tickFields(t *rt.CPUTimes) [numTicks]*uint64 {
	return [...]*uint64{&t.User, &t.Nice, &t.System, &t.Idle, &t.IOWait, &t.IRQ, &t.SoftIRQ, &t.Steal}
}
