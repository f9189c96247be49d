package report

import (
	"math/bits"

	"github.com/resource-tracker/rt"
)

// ShareEnergy divides the energy that a node used in one interval, in microjoules. The part above idle is active
// energy. A job's share of it is its share of the CPU time, or of the instructions, of everything that ran. busy and
// job are in one of these units. The kernel counts busy by tick: if the job has more, that is used instead. The rest,
// with rounding errors, is what everything outside of the job added.
func ShareEnergy(node, idle, busy, job uint64) (ofIdle, ofJob uint64) {
	idle = min(idle, node)
	if job == 0 {
		return idle, 0
	}
	hi, lo := bits.Mul64(node-idle, job)
	share, _ := bits.Div64(hi, lo, max(busy, job)) // job <= busy: no overflow
	return idle, share
}

// EnergyUse is the energy of a node in an interval, and what it was used for: the input of
// ShareEnergy.
type EnergyUse struct {
	Node rt.Opt[uint64] // microjoules; absent if no counter covers the interval
	Of   rt.EnergyKind  // the widest domain that was counted: the node, the platform, or the packages with their memory
	Busy rt.Opt[uint64] // microseconds of CPU time on the node
	Job  rt.Opt[uint64] // the same of the job, or of the process tree of a run without a job

	NodeInstructions rt.Opt[uint64] // absent unless every CPU counted them, for the node and for the job
	JobInstructions  rt.Opt[uint64]
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
	if all, job, ok := rt.Both(u.NodeInstructions, u.JobInstructions); ok && all > 0 {
		return all, job, ByInstructions
	}
	if all, job, ok := rt.Both(u.Busy, u.Job); ok {
		return all, job, ByCPUTime
	}
	return 0, 0, ""
}

// EnergyBetween returns the energy use between two snapshots.
func EnergyBetween(prev, cur *rt.Snapshot) EnergyUse {
	var u EnergyUse
	u.Node, u.Of = countedBetween(prev, cur)
	u.NodeInstructions = instructionsBetween(prev, cur, "node")
	u.JobInstructions = instructionsBetween(prev, cur, "core")
	if before, after, ok := rt.Both(prev.Node.CPU, cur.Node.CPU); ok && after.Busy() >= before.Busy() {
		u.Busy.Set((after.Busy() - before.Busy()) * microsPerTick)
	}
	if cur.Job.Phase != rt.JobNone {
		u.Job = rt.Delta(prev.Job.Counter(prev.Job.CPUUsage), cur.Job.Counter(cur.Job.CPUUsage))
		return u
	}
	user, sys := rt.Delta(prev.Tree.CPUUserTicks, cur.Tree.CPUUserTicks), rt.Delta(prev.Tree.CPUSystemTicks, cur.Tree.CPUSystemTicks)
	if user.Valid() && sys.Valid() {
		u.Job.Set((user.Or(0) + sys.Or(0)) * microsPerTick)
	}
	return u
}

const microsPerTick = 1_000_000 / rt.TicksPerSecond

// countedBetween returns the energy of the widest domains that were counted. Core and uncore are
// parts of the packages; memory is added to them if it was counted.
func countedBetween(prev, cur *rt.Snapshot) (rt.Opt[uint64], rt.EnergyKind) {
	for _, kind := range [...]rt.EnergyKind{rt.EnergyNode, rt.EnergyPlatform} {
		for i := range cur.Energy {
			used := cur.Energy[i].UsedSince(prev, i)
			if cur.Energy[i].Kind == kind && used.Valid() {
				return used, kind
			}
		}
	}
	for i := range cur.Energy {
		if e := &cur.Energy[i]; e.Kind == rt.EnergyPackage {
			if used := packagesBetween(prev, cur, e.Source); used.Valid() {
				return used, rt.EnergyPackage
			}
		}
	}
	return rt.None[uint64](), ""
}

// packagesBetween returns the energy of all packages and memory of one source; two sources count
// the same packages. Every package must have been counted: a sum that lacks one would be too low.
func packagesBetween(prev, cur *rt.Snapshot, source string) rt.Opt[uint64] {
	var sum uint64
	for i := range cur.Energy {
		e := &cur.Energy[i]
		isPart := e.Kind == rt.EnergyPackage || e.Kind == rt.EnergyDRAM
		if e.Source != source || !isPart {
			continue
		}
		used, ok := e.UsedSince(prev, i).Get()
		if !ok && e.Kind == rt.EnergyPackage {
			return rt.None[uint64]()
		}
		sum += used
	}
	return rt.Some(sum)
}

// instructionsBetween returns how many instructions the CPUs counted in a group. The event
// has two names; if a group has both, they count the same instructions.
func instructionsBetween(prev, cur *rt.Snapshot, group string) rt.Opt[uint64] {
	n := countedEvents(prev, cur, group, "instructions")
	if !n.Valid() {
		n = countedEvents(prev, cur, group, "INSTRUCTIONS_RETIRED")
	}
	return n
}

// countedEvents returns how often the CPUs counted an event in a group. A counter that ran
// for a part of the time only is scaled to all of it.
func countedEvents(prev, cur *rt.Snapshot, group, event string) rt.Opt[uint64] {
	sum, cpus := 0.0, 0
	for i := range cur.Perf {
		p := &cur.Perf[i]
		if p.Group != group || p.Event != event {
			continue
		}
		before := rt.Find(prev.Perf, i, func(o *rt.PerfReading) bool {
			return o.Group == p.Group && o.Socket == p.Socket && o.CPU == p.CPU && o.Event == p.Event
		})
		if before == nil {
			return rt.None[uint64]()
		}
		n, ok1 := rt.Delta(before.Value, p.Value).Get()
		enabled, ok2 := rt.Delta(before.TimeEnabled, p.TimeEnabled).Get()
		running, ok3 := rt.Delta(before.TimeRunning, p.TimeRunning).Get()
		neverRan := running == 0 && enabled > 0
		if !ok1 || !ok2 || !ok3 || neverRan {
			return rt.None[uint64]()
		}
		cpus++
		if running > 0 {
			sum += float64(n) * max(1, float64(enabled)/float64(running))
		}
	}
	if cpus == 0 || sum >= 1<<63 {
		return rt.None[uint64]()
	}
	return rt.Some(uint64(sum))
}
