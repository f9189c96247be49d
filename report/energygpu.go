package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

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

// gpuJoules adds the energy of the job's GPUs: as their driver counted it, or else from their
// mean power. For a MIG instance neither exists: it gets the share of its card's energy that
// corresponds to its compute slices, or none if the driver does not report them.
func (r *reading) gpuJoules(e *JobEnergy) {
	var device, slice bool
	for _, of := range r.gpus.sorted() { // a sum in another order differs in the last digits
		if !of.InJob.Or(false) || of.part.isDivided {
			continue
		}
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
	e.GPUMethod = methods(device, "device", slice, "slice")
}

// gpusBetween returns the energy of the node's GPUs in an interval, in microjoules: as the
// driver counted it, or else from the power at the end of the interval.
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
		before, ok1 := counter(prev.Energy).Get()
		now, ok2 := counter(s.Energy).Get()
		if ok1 && ok2 && now >= before {
			used += now - before
		} else {
			used += uint64(g.Power.Or(0) * secs * 1e6)
		}
	}
	return used
}

// deviceJoules returns the measured energy of one device.
func (r *reading) deviceJoules(of *gpuTally) rt.Opt[float64] {
	if e := r.energy[energyKey{"gpu", of.UUID, rt.EnergyGPU}]; e != nil && e.used.spans {
		return rt.Some(float64(e.used.sum) * 1e-6)
	}
	if watts, ok := of.watts.value().Get(); ok {
		return rt.Some(watts * of.watts.secs)
	}
	return rt.None[float64]()
}

// methods lists the methods that were used.
func methods(first bool, name string, second bool, other string) string {
	switch {
	case first && second:
		return name + ", " + other
	case first:
		return name
	case second:
		return other
	}
	return ""
}

// gpus formats the energy of the GPUs, and says what was not measured.
func (e *JobEnergy) gpus() string {
	text := number(e.GPUJoules, "%.1f J")
	if strings.Contains(e.GPUMethod, "slice") {
		text += " by MIG slice"
	}
	if e.GPUJoules.Valid() && e.GPUsUnmeasured > 0 {
		text += fmt.Sprintf(", and %d that nothing measured", e.GPUsUnmeasured)
	}
	return text
}
