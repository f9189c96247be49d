package rt

import "math/bits"

// EnergyShares is the energy of a node in one interval, in microjoules, divided among the
// jobs and the system. Idle, System and Jobs add up to the node's energy exactly.
type EnergyShares struct {
	Idle   uint64   // what the idle node draws
	Jobs   []uint64 // what each job added to that
	System uint64   // what everything outside of the jobs added
}

// ShareEnergy divides the energy that a node used in one interval. The part above idle is active energy. A job's
// share of it is its share of the CPU time, or of the instructions, of everything that ran. busy and jobs are in one
// of these units. The kernel counts busy by tick: if the sum of the jobs is higher, that sum is used instead.
// Rounding errors go to the system.
func ShareEnergy(node, idle, busy uint64, jobs []uint64) EnergyShares {
	idle = min(idle, node)
	active := node - idle
	out := EnergyShares{Idle: idle, System: active, Jobs: make([]uint64, len(jobs))}
	var sum, carry uint64
	for _, used := range jobs {
		sum, carry = bits.Add64(sum, used, 0)
		if carry != 0 {
			return out // more CPU time than is possible: no share is known
		}
	}
	busy = max(busy, sum)
	for i, used := range jobs {
		if used == 0 {
			continue
		}
		hi, lo := bits.Mul64(active, used)
		out.Jobs[i], _ = bits.Div64(hi, lo, busy) // used <= busy: no overflow
		out.System -= out.Jobs[i]
	}
	return out
}

// EnergyUse is the energy of a node in an interval, and what it was used for: the input of
// ShareEnergy.
type EnergyUse struct {
	Node Opt[uint64] // microjoules; absent if no counter covers the interval
	Of   EnergyKind  // the widest domain that was counted: the node, the platform, or the packages with their memory
	Busy Opt[uint64] // microseconds of CPU time on the node
	Job  Opt[uint64] // the same of the job, or of the process tree of a run without a job

	NodeInstructions Opt[uint64] // absent unless every CPU counted them, for the node and for the job
	JobInstructions  Opt[uint64]
}

// EnergyMethod is the quantity by which a node's active energy is divided.
type EnergyMethod string

// The methods. Instructions distinguish one busy core from another, CPU time does not.
const (
	ByCPUTime      EnergyMethod = "cpu time"
	ByInstructions EnergyMethod = "instructions"
)

// Shared returns the arguments of ShareEnergy for everything that ran and for the job:
// instructions if they were counted, else CPU time. The method is empty if neither is known.
func (u *EnergyUse) Shared() (all, job uint64, by EnergyMethod) {
	if all, job, ok := both(u.NodeInstructions, u.JobInstructions); ok && all > 0 {
		return all, job, ByInstructions
	}
	if all, job, ok := both(u.Busy, u.Job); ok {
		return all, job, ByCPUTime
	}
	return 0, 0, ""
}

// EnergyBetween returns the energy use between two snapshots.
func EnergyBetween(prev, cur *Snapshot) EnergyUse {
	var u EnergyUse
	u.Node, u.Of = countedBetween(prev, cur)
	u.NodeInstructions = instructionsBetween(prev, cur, "node")
	u.JobInstructions = instructionsBetween(prev, cur, "core")
	if before, after, ok := both(prev.Node.CPU, cur.Node.CPU); ok && after.Busy() >= before.Busy() {
		u.Busy.Set((after.Busy() - before.Busy()) * microsPerTick)
	}
	if cur.Job.Phase != JobNone {
		u.Job = delta(prev.Job.counter(prev.Job.CPUUsage), cur.Job.counter(cur.Job.CPUUsage))
		return u
	}
	if user, sys, ok := ticksBetween(&prev.Tree, &cur.Tree); ok {
		u.Job.Set((user + sys) * microsPerTick)
	}
	return u
}

const microsPerTick = 1_000_000 / TicksPerSecond

// countedBetween returns the energy of the widest domains that were counted. Core and uncore are
// parts of the packages; memory is added to them if it was counted.
func countedBetween(prev, cur *Snapshot) (Opt[uint64], EnergyKind) {
	for _, kind := range [...]EnergyKind{EnergyNode, EnergyPlatform} {
		for i := range cur.Energy {
			used := cur.Energy[i].UsedSince(prev, i)
			if cur.Energy[i].Kind == kind && used.Valid() {
				return used, kind
			}
		}
	}
	for i := range cur.Energy {
		if e := &cur.Energy[i]; e.Kind == EnergyPackage {
			if used := packagesBetween(prev, cur, e.Source); used.Valid() {
				return used, EnergyPackage
			}
		}
	}
	return None[uint64](), ""
}

// packagesBetween returns the energy of all packages and memory of one source; two sources count
// the same packages. Every package must have been counted: a sum that lacks one would be too low.
func packagesBetween(prev, cur *Snapshot, source string) Opt[uint64] {
	var sum uint64
	for i := range cur.Energy {
		e := &cur.Energy[i]
		isPart := e.Kind == EnergyPackage || e.Kind == EnergyDRAM
		if e.Source != source || !isPart {
			continue
		}
		used, ok := e.UsedSince(prev, i).Get()
		if !ok && e.Kind == EnergyPackage {
			return None[uint64]()
		}
		sum += used
	}
	return Some(sum)
}

// instructionsBetween returns how many instructions the CPUs counted in a group. The event
// has two names; if a group has both, they count the same instructions.
func instructionsBetween(prev, cur *Snapshot, group string) Opt[uint64] {
	n := countedEvents(prev, cur, group, "instructions")
	if !n.Valid() {
		n = countedEvents(prev, cur, group, "INSTRUCTIONS_RETIRED")
	}
	return n
}

// countedEvents returns how often the CPUs counted an event in a group. A counter that ran
// for a part of the time only is scaled to all of it.
func countedEvents(prev, cur *Snapshot, group, event string) Opt[uint64] {
	sum, cpus := 0.0, 0
	for i := range cur.Perf {
		p := &cur.Perf[i]
		if p.Group != group || p.Event != event {
			continue
		}
		before := find(prev.Perf, i, func(o *PerfReading) bool {
			return o.Group == p.Group && o.Socket == p.Socket && o.CPU == p.CPU && o.Event == p.Event
		})
		if before == nil {
			return None[uint64]()
		}
		n, ok1 := delta(before.Value, p.Value).Get()
		enabled, ok2 := delta(before.TimeEnabled, p.TimeEnabled).Get()
		running, ok3 := delta(before.TimeRunning, p.TimeRunning).Get()
		neverRan := running == 0 && enabled > 0
		if !ok1 || !ok2 || !ok3 || neverRan {
			return None[uint64]()
		}
		cpus++
		if running > 0 {
			sum += float64(n) * max(1, float64(enabled)/float64(running))
		}
	}
	if cpus == 0 || sum >= 1<<63 {
		return None[uint64]()
	}
	return Some(uint64(sum))
}

// UsedSince returns the energy of the domain since prev, in microjoules; absent if prev
// lacks it. at is the position of e in its snapshot.
func (e *EnergyReading) UsedSince(prev *Snapshot, at int) Opt[uint64] {
	before := find(prev.Energy, at, func(o *EnergyReading) bool {
		return o.Source == e.Source && o.Domain == e.Domain && o.Kind == e.Kind
	})
	if before == nil {
		return None[uint64]()
	}
	return delta(before.Energy, e.Energy)
}
