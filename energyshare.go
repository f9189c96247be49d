package rt

import "math/bits"

// EnergyShares is the energy of a node in one interval, in microjoules, shared among
// those who ran. Idle, System and Jobs add up to the node's exactly.
type EnergyShares struct {
	Idle   uint64   // what the node draws while it does nothing
	Jobs   []uint64 // what each job made it draw beyond that
	System uint64   // the same of whatever ran outside of the jobs
}

// ShareEnergy shares what a node used in one interval. Of its energy, idle is set
// apart; the rest is active, and each job has the part of it that it had of the CPU
// time, or of the instructions, of all that ran. busy and jobs are such, in one unit;
// where the jobs' sum is more than busy, which the kernel counts by tick, that is
// taken for busy.
// What is lost in rounding goes to the system.
func ShareEnergy(node, idle, busy uint64, jobs []uint64) EnergyShares {
	idle = min(idle, node)
	active := node - idle
	out := EnergyShares{Idle: idle, System: active, Jobs: make([]uint64, len(jobs))}
	var sum, carry uint64
	for _, used := range jobs {
		if sum, carry = bits.Add64(sum, used, 0); carry != 0 {
			return out // more CPU time than there can be: nobody's share is known
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

// EnergyUse is what an interval shows of a node's energy and of what it went into,
// for ShareEnergy.
type EnergyUse struct {
	Node Opt[uint64] // microjoules; absent where no counter covers the interval
	Of   EnergyKind  // the widest that was counted: the node, the platform, or its packages with their memory
	Busy Opt[uint64] // microseconds of CPU time on the node
	Job  Opt[uint64] // the same of the job, or where there is none of the process tree

	NodeInstructions Opt[uint64] // absent unless every CPU counted them, for the node and for the job
	JobInstructions  Opt[uint64]
}

// EnergyMethod is by what a node's active energy is shared.
type EnergyMethod string

// The methods. Instructions tell one busy core from another, CPU time does not.
const (
	ByCPUTime      EnergyMethod = "cpu time"
	ByInstructions EnergyMethod = "instructions"
)

// Shared is what all that ran had, and of that the job, for ShareEnergy: instructions
// where they were counted, else CPU time. The method is empty where neither is known.
func (u *EnergyUse) Shared() (all, job uint64, by EnergyMethod) {
	all, ok1 := u.NodeInstructions.Get()
	job, ok2 := u.JobInstructions.Get()
	if ok1 && ok2 && all > 0 {
		return all, job, ByInstructions
	}
	all, ok1 = u.Busy.Get()
	job, ok2 = u.Job.Get()
	if ok1 && ok2 {
		return all, job, ByCPUTime
	}
	return 0, 0, ""
}

// EnergyBetween tells what two snapshots show.
func EnergyBetween(prev, cur *Snapshot) EnergyUse {
	var u EnergyUse
	u.Node, u.Of = countedBetween(prev, cur)
	u.NodeInstructions = instructionsBetween(prev, cur, "node")
	u.JobInstructions = instructionsBetween(prev, cur, "core")
	before, ok1 := prev.Node.CPU.Get()
	after, ok2 := cur.Node.CPU.Get()
	if ok1 && ok2 && after.Busy() >= before.Busy() {
		u.Busy.Set((after.Busy() - before.Busy()) * microsPerTick)
	}
	if cur.Job.Phase != JobNone {
		u.Job = delta(prev.Job.counter(prev.Job.CPUUsage), cur.Job.counter(cur.Job.CPUUsage))
		return u
	}
	user, ok1 := delta(prev.Tree.CPUUserTicks, cur.Tree.CPUUserTicks).Get()
	sys, ok2 := delta(prev.Tree.CPUSystemTicks, cur.Tree.CPUSystemTicks).Get()
	if ok1 && ok2 {
		u.Job.Set((user + sys) * microsPerTick)
	}
	return u
}

const microsPerTick = 1_000_000 / TicksPerSecond

// countedBetween is the energy of the widest domains that counted. All packages must
// have: a sum that lacks one would be too low. Cores and uncore are in the packages,
// and memory is beside them where it is counted.
func countedBetween(prev, cur *Snapshot) (Opt[uint64], EnergyKind) {
	for _, kind := range [...]EnergyKind{EnergyNode, EnergyPlatform, EnergyPackage} {
		n, sum, short := 0, uint64(0), false
		for i := range cur.Energy {
			e := &cur.Energy[i]
			with := e.Kind == kind || kind == EnergyPackage && e.Kind == EnergyDRAM
			if !with || e.Power.Valid() || kind != EnergyPackage && n > 0 {
				continue
			}
			used, ok := grown(prev, e, i).Get()
			if !ok {
				short = short || e.Kind == kind && kind == EnergyPackage
				continue
			}
			if e.Kind == kind {
				n++
			}
			sum += used
		}
		if n > 0 && !short {
			return Some(sum), kind
		}
	}
	return None[uint64](), ""
}

// instructionsBetween is how many instructions the CPUs counted in a group, by either
// of the event's names: where a group has both they are the same instructions.
func instructionsBetween(prev, cur *Snapshot, group string) Opt[uint64] {
	n := countedEvents(prev, cur, group, "instructions")
	if !n.Valid() {
		n = countedEvents(prev, cur, group, "INSTRUCTIONS_RETIRED")
	}
	return n
}

// countedEvents is how many of an event the CPUs counted in a group. Where they were on
// the counters for a part of the time, what they counted stands for all of it.
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
		if !ok1 || !ok2 || !ok3 || running == 0 && enabled > 0 {
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

// grown is by how much the domain has counted up since prev.
func grown(prev *Snapshot, e *EnergyReading, at int) Opt[uint64] {
	before := find(prev.Energy, at, func(o *EnergyReading) bool {
		return o.Source == e.Source && o.Domain == e.Domain && o.Kind == e.Kind
	})
	if before == nil {
		return None[uint64]()
	}
	return delta(before.Energy, e.Energy)
}
