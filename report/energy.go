package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Energy is what one domain of the node or of a device used while the run was
// tracked. Domains overlap: a package includes its cores, the node includes everything.
type Energy struct {
	Source string          `json:"source"`
	Domain string          `json:"domain"`
	Kind   rt.EnergyKind   `json:"kind"`
	Joules rt.Opt[float64] `json:"joules"` // as counted; null if the domain has no counter
	Watts  rt.Opt[float64] `json:"watts"`  // mean, counted or read
}

type energyTally struct {
	used  total
	watts mean
}

// energyTallies are by source, domain and kind.
type energyTallies map[Energy]*energyTally

func (t energyTallies) add(s *rt.Snapshot, secs float64) {
	for i := range s.Energy {
		e := &s.Energy[i]
		of := entry(t, Energy{Source: e.Source, Domain: e.Domain, Kind: e.Kind})
		of.used.add(e.Energy)
		of.watts.add(e.Power, secs)
	}
}

// list returns the domains, the widest first; secs is the time between the readings.
func (t energyTallies) list(secs float64) []Energy {
	kinds := []rt.EnergyKind{rt.EnergyNode, rt.EnergyPlatform, rt.EnergyPackage, rt.EnergyCore, rt.EnergyUncore, rt.EnergyDRAM, rt.EnergyGPU}
	out := slices.SortedFunc(maps.Keys(t), func(a, b Energy) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Source, b.Source))
	})
	for i := range out {
		e, of := &out[i], t[out[i]]
		e.Joules, e.Watts = of.used.scaled(1e-6), of.watts.value()
		if j, ok := e.Joules.Get(); ok && !e.Watts.Valid() && secs > 0 {
			e.Watts.Set(j / secs)
		}
	}
	return out
}

// JobEnergy is the share of a job, or of a process tree, in the energy of the node. In each
// interval the energy above the idle power is divided by instructions if they were counted,
// else by CPU time. Idle energy belongs to no job; the upper bound includes all idle energy. GPUs
// are counted separately, by device.
type JobEnergy struct {
	ActiveJoules rt.Opt[float64] `json:"active_joules"` // also the lower bound: without idle energy
	HighJoules   rt.Opt[float64] `json:"high_joules"`   // with all idle energy
	IdleJoules   rt.Opt[float64] `json:"idle_joules"`   // of the node
	NodeJoules   rt.Opt[float64] `json:"node_joules"`   // what is divided: without the GPUs
	OtherJoules  rt.Opt[float64] `json:"other_joules"`  // active, of other jobs and the system
	MeanWatts    rt.Opt[float64] `json:"mean_watts"`    // of ActiveJoules

	IdleWatts rt.Opt[float64] `json:"idle_watts"`
	IdleOf    string          `json:"idle_of,omitempty"` // "configuration"; "least": the lowest power of the run
	Of        string          `json:"of,omitempty"`      // the source: "node", "psys", "package", "meter"
	// Method is "cpu time", "instructions", or both in this order.
	Method           string  `json:"method,omitempty"`
	CoveredSecs      float64 `json:"covered_secs"`      // time of the run that was measured
	InstructionsSecs float64 `json:"instructions_secs"` // the part that was divided by instructions

	GPUJoules rt.Opt[float64] `json:"gpu_joules"` // of the job's GPUs, counted or by their mean power
	// GPUMethod is "device", or "slice" if a MIG instance got the share of its card's
	// energy that corresponds to its compute slices, or both.
	GPUMethod string `json:"gpu_method,omitempty"`
	// GPUsUnmeasured is the number of the job's GPUs without a measurement. GPUJoules and
	// the figures that depend on it do not include them.
	GPUsUnmeasured uint64 `json:"gpus_unmeasured,omitempty"`

	KWh       rt.Opt[float64] `json:"kwh"`        // ActiveJoules and GPUJoules
	CO2eGrams rt.Opt[float64] `json:"co2e_grams"` // with the site's factor
	Reason    string          `json:"reason,omitempty"`
}

// energyInterval is one measured interval.
type energyInterval struct {
	node      uint64 // microjoules
	busy, job uint64 // microseconds or instructions
	by        EnergyMethod
	secs      float64
}

// energyRecord collects the intervals of each source.
type energyRecord struct {
	by       map[rt.EnergyKind][]energyInterval
	watts    rt.Opt[float64] // of a power meter, at its last reading
	wattsAt  int64           // Boot
	unshared bool            // energy was measured, but nothing to divide it by
}

// MeterHold is how long a reading of power is valid.
const MeterHold = time.Minute

// ofMeter is the source of energy that a power meter measured.
const ofMeter = rt.EnergyKind("meter")

// measures are the sources for the energy of the node, the best first: counters are complete,
// a meter measures instants.
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
	use := EnergyBetween(prev, s)
	i.busy, i.job, i.by = use.Shared()
	var known bool
	i.node, known = use.Node.Get()
	if known {
		r.put(use.Of, i, prev, s)
	}
	if watts, ok := r.watts.Get(); ok && s.Boot-r.wattsAt <= int64(MeterHold) {
		i.node = uint64(watts * i.secs * 1e6)
		r.put(ofMeter, i, prev, s)
	}
}

// put adds an interval. A source for the whole node includes its GPUs.
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

// best returns the source that covers most of the run. If several cover about the same time,
// it is the first of measures.
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

// leastPower returns the lowest power of an interval of half a second or more, in watts.
func leastPower(intervals []energyInterval) rt.Opt[float64] {
	var least rt.Opt[float64]
	for _, i := range intervals {
		if w := float64(i.node) / 1e6 / i.secs; i.secs >= 0.5 && w <= least.Or(w) {
			least.Set(w)
		}
	}
	return least
}

// ShareEnergy divides the node's energy again with the values of a site. idleWatts is the power of the idle node in
// watts, 0 for the lowest power of the run. gramsPerKWh are grams of CO2 equivalents per kWh, 0 if unknown.
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
		ofIdle, ofJob := i.shares(e.IdleWatts)
		node, idle, job = node+i.node, idle+ofIdle, job+ofJob
		e.CoveredSecs += i.secs
		if i.by == ByInstructions {
			e.InstructionsSecs += i.secs
		}
	}
	e.Method = present(", ", onlyIf(e.InstructionsSecs < e.CoveredSecs, string(ByCPUTime)), onlyIf(e.InstructionsSecs > 0, string(ByInstructions)))
	e.NodeJoules, e.IdleJoules, e.ActiveJoules = micros(rt.Some(node)), micros(rt.Some(idle)), micros(rt.Some(job))
	e.HighJoules, e.OtherJoules = micros(rt.Some(job+idle)), micros(rt.Some(node-idle-job))
	e.MeanWatts.Set(float64(job) / 1e6 / e.CoveredSecs)
	e.priced(gramsPerKWh)
}

// PowerShare is the job's share in the node's power, interval by interval. It divides the energy
// as ShareEnergy does.
type PowerShare struct {
	Of     *JobEnergy // nil: no share is known
	record energyRecord
}

// Between returns the share between two readings in watts, without idle energy and GPUs; absent
// if the source of Of does not cover the interval. The caller passes all readings in order.
func (p *PowerShare) Between(prev, s *rt.Snapshot) rt.Opt[float64] {
	if p.Of == nil {
		return rt.None[float64]()
	}
	clear(p.record.by)
	p.record.add(prev, s)
	list := p.record.by[rt.EnergyKind(p.Of.Of)]
	if len(list) == 0 {
		return rt.None[float64]()
	}
	i := list[0]
	_, share := i.shares(p.Of.IdleWatts)
	return rt.Some(float64(share) / 1e6 / i.secs)
}

// shares divides the energy of the interval. Its idleWatts belong to no job.
func (i *energyInterval) shares(idleWatts rt.Opt[float64]) (ofIdle, ofJob uint64) {
	return ShareEnergy(i.node, uint64(idleWatts.Or(0)*i.secs*1e6), i.busy, i.job)
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

// jobEnergy returns the block without its energy; nil for a whole node and if there was no source.
func (r *reading) jobEnergy(s *Summary) {
	if s.Scope == ScopeNode {
		return
	}
	e := &JobEnergy{}
	r.gpuJoules(e)
	switch {
	case len(r.shared.by) > 0:
	case r.shared.unshared:
		e.Reason = "the CPU time that divides the node's energy was not read"
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

// jobEnergy writes the line of the job's share in the node's energy.
func (p *runPage) jobEnergy() {
	e := p.sum.JobEnergy
	switch {
	case e == nil:
		return
	case e.ActiveJoules.Valid():
		price := Number(e.KWh, "%.4f kWh") + onlyIf(e.CO2eGrams.Valid(), Number(e.CO2eGrams, ", %.1f g CO2e"))
		p.list("Job energy", fmt.Sprintf("%s by %s to %s with all idle, GPUs %s; %s", Joules(e.ActiveJoules),
			strings.Replace(e.Method, "cpu", "CPU", 1), Joules(e.HighJoules), e.gpus(), price))
	default:
		p.list("Job energy", fmt.Sprintf("n/a%s; GPUs %s", because(e.Reason), e.gpus()))
	}
}

// slice is the share of a card that a MIG instance has.
type slice struct {
	card      string // UUID; empty for a GPU that is not an instance
	own, of   uint64 // compute slices; of is 0 if the driver does not report it
	isDivided bool   // the card has instances
}

// set reads the details of a GPU: "parent_uuid", "mig_compute_slices" as "2/7".
func (p *slice) set(detail map[string]string) {
	p.card, p.isDivided = detail["parent_uuid"], detail["mig_mode"] == "enabled"
	own, of, _ := strings.Cut(detail["mig_compute_slices"], "/")
	var err1, err2 error
	p.own, err1 = strconv.ParseUint(own, 10, 16)
	p.of, err2 = strconv.ParseUint(of, 10, 16)
	if err1 != nil || err2 != nil || p.own > p.of {
		p.own, p.of = 0, 0
	}
}

// gpuJoules adds the energy of the job's GPUs: as their driver counted it, or else from their mean power. A MIG
// instance has neither. It gets its compute slices' share of the card's energy, or none if the driver does not report
// the slices.
func (r *reading) gpuJoules(e *JobEnergy) {
	var device, slice bool
	found := uint64(0)
	for _, of := range r.gpus.sorted() { // a sum in another order differs in the last digits
		if !of.InJob.Or(false) || of.part.isDivided {
			continue
		}
		found++
		used := r.deviceJoules(of)
		device = device || used.Valid()
		if card := r.gpus[of.part.card]; !used.Valid() && card != nil && of.part.of > 0 {
			if j, ok := r.deviceJoules(card).Get(); ok {
				used.Set(j * float64(of.part.own) / float64(of.part.of))
				slice = true
			}
		}
		if j, ok := used.Get(); ok {
			e.GPUJoules.Set(e.GPUJoules.Or(0) + j)
		} else {
			e.GPUsUnmeasured++
		}
	}
	allocated := rt.CountGPUs(r.run.GPUs)
	e.GPUsUnmeasured += allocated - min(found, allocated)
	e.GPUMethod = present(", ", onlyIf(device, "device"), onlyIf(slice, "slice"))
}

// gpusBetween returns the energy of the node's GPUs in an interval, in microjoules. It is as the driver counted it,
// or else from the power at the interval's end.
func gpusBetween(prev, s *rt.Snapshot, secs float64) (used uint64) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		counter := func(list []rt.EnergyReading) rt.Opt[uint64] {
			at := slices.IndexFunc(list, func(e rt.EnergyReading) bool { return e.Kind == rt.EnergyGPU && e.Domain == g.UUID })
			if at < 0 {
				return rt.None[uint64]()
			}
			return list[at].Energy
		}
		before, now, ok := rt.Both(counter(prev.Energy), counter(s.Energy))
		if ok && now >= before {
			used += now - before
		} else {
			used += uint64(g.Power.Or(0) * secs * 1e6)
		}
	}
	return used
}

// deviceJoules returns the measured energy of one device.
func (r *reading) deviceJoules(of *gpuTally) rt.Opt[float64] {
	if e := r.energy[Energy{Source: "gpu", Domain: of.UUID, Kind: rt.EnergyGPU}]; e != nil && e.used.spans {
		return rt.Some(float64(e.used.sum) * 1e-6)
	}
	if watts, ok := of.watts.value().Get(); ok {
		return rt.Some(watts * of.watts.secs)
	}
	return rt.None[float64]()
}

// gpus formats the energy of the GPUs, and says what was not measured.
func (e *JobEnergy) gpus() string {
	return Joules(e.GPUJoules) + onlyIf(strings.Contains(e.GPUMethod, "slice"), " by MIG slice") +
		onlyIf(e.GPUJoules.Valid() && e.GPUsUnmeasured > 0, fmt.Sprintf(", and %d that nothing measured", e.GPUsUnmeasured))
}
