package powerapi

import (
	"fmt"
	"maps"
	"math/bits"
	"time"
)

// Report is an *HWPCReport, a *PowerReport or a *ProcfsReport.
type Report interface {
	// AppendJSON appends the report as one line, with its newline.
	AppendJSON(dst []byte, stamp Stamp) ([]byte, error)
	// Head returns the header of the report.
	Head() *Header
}

// Stamp is the form of a time.
type Stamp uint8

// The forms of a time.
const (
	ISO    Stamp = iota // "2021-01-13T09:51:22.630", UTC, with 3 or 6 decimals: for files
	Millis              // milliseconds since the epoch, a number: for sockets and CSV
)

// Header has the fields of all reports.
type Header struct {
	Time     time.Time // of the measurement, not of its evaluation; whole microseconds
	Sensor   string    // the reports of one sensor belong together: the node
	Metadata Metadata
}

// Head returns the header.
func (h *Header) Head() *Header { return h }

// Metadata has further facts about a report. Numbers are json.Number.
type Metadata map[string]any

// All is the target that stands for the whole node.
const All = "all"

// HWPCReport has the performance counters and RAPL energy of one interval.
type HWPCReport struct {
	Header
	Target string // a cgroup, or All
	Groups map[string]Sockets
}

// The groups of a report.
const (
	GroupCore = "core" // counters of the cores, of one cgroup
	GroupRAPL = "rapl" // energy, of the node, in units of 2^-32 J
	GroupMSR  = "msr"  // MPERF, APERF and TSC, of the node
)

// The events of GroupRAPL.
const (
	EventPackage  = "RAPL_ENERGY_PKG"
	EventCores    = "RAPL_ENERGY_CORES"
	EventDRAM     = "RAPL_ENERGY_DRAM"
	EventUncore   = "RAPL_ENERGY_GPU"
	EventPlatform = "RAPL_ENERGY_PSYS"
)

// Sockets are the counters of a group by socket and CPU, as the sensor nests them.
type Sockets map[uint64]map[uint64]Counters

// Counters has the counts of the events of one CPU, and the nanoseconds in which the counters were
// enabled and running. A counter that shared its register ran for less time: scaled by enabled /
// running it is an estimate.
type Counters map[string]uint64

// The two times among the Counters, in nanoseconds.
const (
	TimeEnabled = "time_enabled"
	TimeRunning = "time_running"
)

// Set sets the count of one event.
func (r *HWPCReport) Set(group string, socket, cpu uint64, event string, count uint64) {
	if r.Groups == nil {
		r.Groups = map[string]Sockets{}
	}
	sockets := r.Groups[group]
	if sockets == nil {
		sockets = Sockets{}
		r.Groups[group] = sockets
	}
	if sockets[socket] == nil {
		sockets[socket] = map[uint64]Counters{}
	}
	if sockets[socket][cpu] == nil {
		sockets[socket][cpu] = Counters{}
	}
	sockets[socket][cpu][event] = count
}

// PowerReport has a power.
type PowerReport struct {
	Header
	Target string
	Power  float64 // watts, finite
}

// ProcfsReport has the CPU use of some cgroups.
type ProcfsReport struct {
	Header
	Targets        []string
	Usage          map[string]float64 // percent of the CPU by target
	GlobalCPUUsage float64            // percent, of all processes
}

// energyUnit is the unit of RAPL's counters in perf_event_open(2), in joules.
const energyUnit = 1.0 / (1 << 32)

// RAPLCount converts an energy in microjoules to the unit of GroupRAPL, rounded to the nearest count.
func RAPLCount(microjoules uint64) (uint64, error) {
	hi, lo := bits.Mul64(microjoules, 1<<32)
	lo, carry := bits.Add64(lo, 500_000, 0)
	hi += carry
	if hi >= 1_000_000 {
		return 0, fmt.Errorf("%d microjoules are more than a counter of RAPL holds", microjoules)
	}
	count, _ := bits.Div64(hi, lo, 1_000_000)
	return count, nil
}

// Joules converts a count of GroupRAPL to joules.
func Joules(count uint64) float64 { return float64(count) * energyUnit }

// clone returns a copy that is never nil.
func (m Metadata) clone() Metadata {
	if len(m) == 0 {
		return Metadata{}
	}
	return maps.Clone(m)
}
