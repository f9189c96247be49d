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
	// Head returns what all reports have.
	Head() *Header
}

// Stamp is how a time is written.
type Stamp uint8

// The forms of a time.
const (
	ISO    Stamp = iota // "2021-01-13T09:51:22.630", UTC, with 3 or 6 decimals: for files
	Millis              // milliseconds since the epoch, a number: for sockets and CSV
)

// Header is what all reports have.
type Header struct {
	Time     time.Time // of the measurement, not of its evaluation; whole microseconds
	Sensor   string    // the reports of one sensor belong together: the node
	Metadata Metadata
}

// Head returns the header.
func (h *Header) Head() *Header { return h }

// Metadata is whatever else is to be said of a report. Numbers are json.Number.
type Metadata map[string]any

// All is the target that stands for the whole node.
const All = "all"

// HWPCReport has what performance counters and RAPL counted in one interval.
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

// Counters are the events of one CPU: how often each was counted, and for how many
// nanoseconds they were to be counted and were. A counter that shared its register
// with others ran for less: scaled by enabled / running it is an estimate.
type Counters map[string]uint64

// The two times among the Counters, in nanoseconds.
const (
	TimeEnabled = "time_enabled"
	TimeRunning = "time_running"
)

// Set puts one event in its place.
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

// PowerReport is a power.
type PowerReport struct {
	Header
	Target string
	Power  float64 // watts, finite
}

// ProcfsReport is what some cgroups used of the CPU.
type ProcfsReport struct {
	Header
	Targets        []string
	Usage          map[string]float64 // percent of the CPU by target
	GlobalCPUUsage float64            // percent, of whatever ran
}

// energyUnit is the unit of RAPL's counters in perf_event_open(2), in joules.
const energyUnit = 1.0 / (1 << 32)

// RAPLCount is an energy in microjoules in the unit of GroupRAPL, to the nearest.
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

// Joules is a count of GroupRAPL in joules.
func Joules(count uint64) float64 { return float64(count) * energyUnit }

// clone makes metadata that is never nil.
func (m Metadata) clone() Metadata {
	if len(m) == 0 {
		return Metadata{}
	}
	return maps.Clone(m)
}
