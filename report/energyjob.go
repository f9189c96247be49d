package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// JobEnergy is the part that a job, or a process tree, had of the node's energy. In
// each interval what the node used beyond its idle power is shared by instructions
// where they were counted, else by CPU time; idle energy is nobody's, and what it
// would be if all of it were the job's is the upper bound. GPUs stand apart, by device.
type JobEnergy struct {
	ActiveJoules rt.Opt[float64] `json:"active_joules"` // the lower bound too: no idle energy in it
	HighJoules   rt.Opt[float64] `json:"high_joules"`   // with all idle energy
	IdleJoules   rt.Opt[float64] `json:"idle_joules"`   // of the node
	NodeJoules   rt.Opt[float64] `json:"node_joules"`   // what is shared: without the GPUs
	OtherJoules  rt.Opt[float64] `json:"other_joules"`  // active, of other jobs and the system
	MeanWatts    rt.Opt[float64] `json:"mean_watts"`    // of ActiveJoules

	IdleWatts rt.Opt[float64] `json:"idle_watts"`
	IdleOf    string          `json:"idle_of,omitempty"` // "configuration"; "least": the lowest power of the run
	Of        string          `json:"of,omitempty"`      // what measured: "node", "psys", "package", "meter"
	// Method is what was shared by: "cpu time", "instructions", or in this order both.
	Method           string  `json:"method,omitempty"`
	CoveredSecs      float64 `json:"covered_secs"`      // of the run were measured
	InstructionsSecs float64 `json:"instructions_secs"` // of these, shared by instructions

	GPUJoules rt.Opt[float64] `json:"gpu_joules"` // of the job's GPUs, counted or by their mean power
	// GPUMethod is "device", or "slice" where a MIG instance has the part of its
	// card's energy that its compute slices are of the card's, or both.
	GPUMethod string `json:"gpu_method,omitempty"`
	// GPUsUnmeasured is how many of the job's GPUs nothing measured: GPUJoules and what
	// is made of it lack theirs.
	GPUsUnmeasured uint64 `json:"gpus_unmeasured,omitempty"`

	KWh       rt.Opt[float64] `json:"kwh"`        // ActiveJoules and GPUJoules
	CO2eGrams rt.Opt[float64] `json:"co2e_grams"` // with the site's factor
	Reason    string          `json:"reason,omitempty"`
}

// energyInterval is one interval that was measured.
type energyInterval struct {
	node      uint64 // microjoules
	busy, job uint64 // microseconds or instructions
	by        rt.EnergyMethod
	secs      float64
}

// energyRecord gathers them, by what measured.
type energyRecord struct {
	by       map[rt.EnergyKind][]energyInterval
	watts    rt.Opt[float64] // of a power meter when it was last read
	wattsAt  int64           // Boot
	unshared bool            // energy was there, nothing to share it by was
}

// MeterHold is how long a power stands for the time after it.
const MeterHold = time.Minute

// Where what a power meter showed stands for the node.
const ofMeter = rt.EnergyKind("meter")

// measures are what may stand for the node, the best first: counters miss nothing, a
// meter shows instants.
var measures = [...]rt.EnergyKind{rt.EnergyNode, rt.EnergyPlatform, rt.EnergyPackage, ofMeter}

func (r *energyRecord) add(prev, s *rt.Snapshot) {
	for i := range s.Energy {
		if e := &s.Energy[i]; e.Kind == rt.EnergyNode && e.Power.Valid() {
			r.watts, r.wattsAt = e.Power, s.Boot
		}
	}
	if prev == nil || s.Boot <= prev.Boot {
		return
	}
	i := energyInterval{secs: float64(s.Boot-prev.Boot) / 1e9}
	use := rt.EnergyBetween(prev, s)
	i.busy, i.job, i.by = use.Shared()
	var known bool
	if i.node, known = use.Node.Get(); known {
		r.put(use.Of, i, prev, s)
	}
	if watts, ok := r.watts.Get(); ok && s.Boot-r.wattsAt <= int64(MeterHold) {
		i.node = uint64(watts * i.secs * 1e6)
		r.put(ofMeter, i, prev, s)
	}
}

// put adds an interval. What measures the whole node has its GPUs in it.
func (r *energyRecord) put(of rt.EnergyKind, i energyInterval, prev, s *rt.Snapshot) {
	if i.by == "" {
		r.unshared = true
		return
	}
	if of == rt.EnergyNode || of == ofMeter {
		i.node -= min(i.node, gpusBetween(prev, s, i.secs))
	}
	if r.by == nil {
		r.by = map[rt.EnergyKind][]energyInterval{}
	}
	r.by[of] = append(r.by[of], i)
}

// best is what covers most of the run, and of those that cover about the same the
// first of measures.
func (r *energyRecord) best() (of rt.EnergyKind, intervals []energyInterval) {
	covered := 0.0
	for _, kind := range measures {
		secs := 0.0
		for _, i := range r.by[kind] {
			secs += i.secs
		}
		if secs > covered*10/9 {
			covered, of = secs, kind
		}
	}
	return of, r.by[of]
}

// leastPower is that of an interval of half a second or more, in watts.
func leastPower(intervals []energyInterval) rt.Opt[float64] {
	var least rt.Opt[float64]
	for _, i := range intervals {
		if w := float64(i.node) / 1e6 / i.secs; i.secs >= 0.5 && w <= least.Or(w) {
			least.Set(w)
		}
	}
	return least
}

// ShareEnergy shares the node's energy anew with what a site knows: the power that
// its node draws while idle, in watts, 0 for the least that was seen; and how many
// grams of CO2 equivalents a kWh is, 0 where nobody says.
func (s *Summary) ShareEnergy(idleWatts, gramsPerKWh float64) {
	e := s.JobEnergy
	if e == nil {
		return
	}
	of, intervals := s.energy.best()
	if len(intervals) == 0 {
		e.priced(gramsPerKWh)
		return
	}
	e.Of, e.CoveredSecs, e.InstructionsSecs = string(of), 0, 0
	e.IdleWatts, e.IdleOf = rt.Some(idleWatts), "configuration"
	if idleWatts == 0 {
		e.IdleWatts, e.IdleOf = leastPower(intervals), "least"
	}
	var node, idle, job uint64
	for _, i := range intervals {
		shares := rt.ShareEnergy(i.node, uint64(e.IdleWatts.Or(0)*i.secs*1e6), i.busy, []uint64{i.job})
		node, idle, job = node+i.node, idle+shares.Idle, job+shares.Jobs[0]
		e.CoveredSecs += i.secs
		if i.by == rt.ByInstructions {
			e.InstructionsSecs += i.secs
		}
	}
	e.Method = methods(e.InstructionsSecs < e.CoveredSecs, string(rt.ByCPUTime), e.InstructionsSecs > 0, string(rt.ByInstructions))
	e.NodeJoules.Set(float64(node) / 1e6)
	e.IdleJoules.Set(float64(idle) / 1e6)
	e.ActiveJoules.Set(float64(job) / 1e6)
	e.HighJoules.Set(float64(job+idle) / 1e6)
	e.OtherJoules.Set(float64(node-idle-job) / 1e6)
	e.MeanWatts.Set(float64(job) / 1e6 / e.CoveredSecs)
	e.priced(gramsPerKWh)
}

const joulesPerKWh = 3.6e6

func (e *JobEnergy) priced(gramsPerKWh float64) {
	if !e.ActiveJoules.Valid() && !e.GPUJoules.Valid() {
		return
	}
	total := e.ActiveJoules.Or(0) + e.GPUJoules.Or(0)
	e.KWh.Set(total / joulesPerKWh)
	e.CO2eGrams.Clear()
	if gramsPerKWh > 0 {
		e.CO2eGrams.Set(total / joulesPerKWh * gramsPerKWh)
	}
}

// jobEnergy begins the block, nil for a whole node and where nothing measured at all.
func (r *reading) jobEnergy(s *Summary) {
	if s.Scope == ScopeNode {
		return
	}
	e := &JobEnergy{}
	r.gpuJoules(e)
	switch {
	case len(r.shared.by) > 0:
	case r.shared.unshared:
		e.Reason = "the CPU time to share the node's energy by was not read"
	case len(s.Energy) > 0:
		e.Reason = "no counter of the node's energy covers any interval"
	case !e.GPUJoules.Valid():
		return
	default:
		e.Reason = "nothing measured but the GPUs"
	}
	s.JobEnergy, s.energy = e, r.shared
	s.ShareEnergy(0, 0)
}

// jobEnergy is the line of what the job had of the node's energy.
func (p *page) jobEnergy(s *Summary) {
	e := s.JobEnergy
	switch {
	case e == nil:
		return
	case e.ActiveJoules.Valid():
		price := number(e.KWh, "%.4f kWh")
		if e.CO2eGrams.Valid() {
			price += number(e.CO2eGrams, ", %.1f g CO2e")
		}
		p.list("Job energy", []string{
			fmt.Sprintf("%s by %s to %s with all idle, GPUs %s; %s", number(e.ActiveJoules, "%.1f J"), strings.Replace(e.Method, "cpu", "CPU", 1),
				number(e.HighJoules, "%.1f J"), e.gpus(), price),
		})
	default:
		p.list("Job energy", []string{fmt.Sprintf("n/a%s; GPUs %s", because(e.Reason), e.gpus())})
	}
}
