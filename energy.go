package rt

// EnergyReading holds what one domain of the node or of a device measured.
type EnergyReading struct {
	Source string      // "powercap", "hwmon", "ipmi", "pm_counters", "gpu"
	Domain string      // its name in the source: "package-0", "dram", a GPU's UUID
	Kind   EnergyKind  // what it measures
	Socket Opt[uint64] // the CPU package; absent if it belongs to none

	Energy Opt[uint64]  // microjoules since the tracker's first reading: it neither wraps nor falls
	Power  Opt[float64] // watts, if the domain reports power and not energy
}

// EnergyKind is what a domain measures.
type EnergyKind string

// The kinds of domains. Package includes core and uncore; on servers it does not include
// DRAM. Node includes everything behind the power supply.
const (
	EnergyPackage  EnergyKind = "package"
	EnergyCore     EnergyKind = "core"
	EnergyUncore   EnergyKind = "uncore"
	EnergyDRAM     EnergyKind = "dram"
	EnergyPlatform EnergyKind = "psys"
	EnergyNode     EnergyKind = "node"
	EnergyGPU      EnergyKind = "gpu"
)

// PerfReading holds one counter of one CPU, perf_event_open(2). Those of the group "core"
// count the job's cgroup, those of the other groups count everything that ran on the node.
type PerfReading struct {
	Group  string // "core", "node", "rapl", "msr": counted together
	Socket uint64
	CPU    uint64
	Event  string // as configured, "instructions"

	Value       Opt[uint64] // as counted, not scaled
	TimeEnabled Opt[uint64] // nanoseconds
	TimeRunning Opt[uint64] // nanoseconds; less than TimeEnabled if counters were shared
}

// Record is a report of another program about the node or the job, which is stored with
// the run unchanged: a PowerAPI report, a GemPBA frame.
type Record struct {
	Time   int64  // of receipt, nanoseconds since the epoch
	Source string // "powerapi", "gempba"
	Body   []byte // one JSON document
}
