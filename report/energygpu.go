package report

import (
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// slice is the part of a card that a MIG instance is.
type slice struct {
	card      string // UUID; empty for what is no instance
	own, of   uint64 // compute slices; of is 0 where the driver does not say
	isDivided bool   // it is such a card
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

// gpuJoules is the energy of the job's GPUs: as their driver counted, or else their
// mean power. Of a MIG instance nobody measures either: it has the part of its card's
// that its compute slices are, and nothing where the driver does not tell them.
func (r *reading) gpuJoules() (joules rt.Opt[float64], method string) {
	var devices, slices bool
	for _, of := range r.gpus {
		if !of.InJob.Or(false) || of.part.isDivided {
			continue
		}
		used := r.deviceJoules(of)
		devices = devices || used.Valid()
		if card := r.gpus[of.part.card]; !used.Valid() && card != nil && of.part.of > 0 {
			if j, ok := r.deviceJoules(card).Get(); ok {
				used.Set(j * float64(of.part.own) / float64(of.part.of))
				slices = true
			}
		}
		if j, ok := used.Get(); ok {
			joules.Set(joules.Or(0) + j)
		}
	}
	return joules, methods(devices, "device", slices, "slice")
}

// deviceJoules is what was measured of one device.
func (r *reading) deviceJoules(of *gpuTally) rt.Opt[float64] {
	if e := r.energy[energyKey{"gpu", of.UUID, rt.EnergyGPU}]; e != nil && e.used.spans {
		return rt.Some(float64(e.used.sum) * 1e-6)
	}
	if watts, ok := of.watts.value().Get(); ok {
		return rt.Some(watts * of.watts.secs)
	}
	return rt.None[float64]()
}

// methods names those that were used.
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

// gpus is the energy of the GPUs with what is not measured but shared.
func (e *JobEnergy) gpus() string {
	text := number(e.GPUJoules, "%.1f J")
	if strings.Contains(e.GPUMethod, "slice") {
		text += " by MIG slice"
	}
	return text
}
