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
// time of all that ran. busy and jobs are such times, in one unit; where the jobs'
// sum is more than busy, which the kernel counts by tick, that is taken for busy.
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

// EnergyUse is what an interval shows of a node's energy and CPU time, for ShareEnergy.
type EnergyUse struct {
	Node Opt[uint64] // microjoules; absent where no counter covers the interval
	Of   EnergyKind  // the widest that was counted: the node, the platform, or its packages with their memory
	Busy Opt[uint64] // microseconds of CPU time on the node
	Job  Opt[uint64] // the same of the job, or where there is none of the process tree
}

// EnergyBetween tells what two snapshots show.
func EnergyBetween(prev, cur *Snapshot) EnergyUse {
	var u EnergyUse
	u.Node, u.Of = countedBetween(prev, cur)
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
