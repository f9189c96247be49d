package rt

// EnergyReading holds what one domain of the node or of a device measured.
type EnergyReading struct {
	Source string      // "powercap", "hwmon", "ipmi", "pm_counters", "gpu"
	Domain string      // the source's name of it: "package-0", "dram", a GPU's UUID
	Kind   EnergyKind  // what it measures
	Socket Opt[uint64] // the CPU package; absent where it belongs to none

	Energy Opt[uint64]  // microjoules since the tracker's first reading: it neither wraps nor falls
	Power  Opt[float64] // watts, where the domain shows power and not energy
}

// EnergyKind is what a domain measures.
type EnergyKind string

// The kinds of domains. Package holds core and uncore; DRAM is apart from it on
// servers; Node holds everything behind the power supply.
const (
	EnergyPackage  EnergyKind = "package"
	EnergyCore     EnergyKind = "core"
	EnergyUncore   EnergyKind = "uncore"
	EnergyDRAM     EnergyKind = "dram"
	EnergyPlatform EnergyKind = "psys"
	EnergyNode     EnergyKind = "node"
	EnergyGPU      EnergyKind = "gpu"
)

// PerfReading holds one counter of one CPU, perf_event_open(2): in the group "core" of
// the job's cgroup, in the others of all that ran on the node.
type PerfReading struct {
	Group  string // "core", "node", "rapl", "msr": counted together
	Socket uint64
	CPU    uint64
	Event  string // as configured, "instructions"

	Value       Opt[uint64] // as counted, not scaled
	TimeEnabled Opt[uint64] // nanoseconds
	TimeRunning Opt[uint64] // nanoseconds: less than enabled where counters were shared
}

// Record is a report of another program about the node or the job that is kept
// with the run as it came: a PowerAPI report, a GemPBA frame.
type Record struct {
	Time   int64  // nanoseconds since the epoch, when it came
	Source string // "powerapi", "gempba"
	Body   []byte // one JSON document
}
