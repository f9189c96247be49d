package report

import (
	"cmp"
	"maps"
	"slices"

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

type energyKey struct {
	source, domain string
	kind           rt.EnergyKind
}

type energyTally struct {
	used  total
	watts mean
}

type energyTallies map[energyKey]*energyTally

func (t energyTallies) add(s *rt.Snapshot, secs float64) {
	for i := range s.Energy {
		e := &s.Energy[i]
		key := energyKey{e.Source, e.Domain, e.Kind}
		of := t[key]
		if of == nil {
			of = &energyTally{}
			t[key] = of
		}
		of.used.add(e.Energy)
		of.watts.add(e.Power, secs)
	}
}

// list returns the domains, the widest first; secs is the time between the readings.
func (t energyTallies) list(secs float64) []Energy {
	kinds := []rt.EnergyKind{rt.EnergyNode, rt.EnergyPlatform, rt.EnergyPackage, rt.EnergyCore, rt.EnergyUncore, rt.EnergyDRAM, rt.EnergyGPU}
	keys := slices.SortedFunc(maps.Keys(t), func(a, b energyKey) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.kind), slices.Index(kinds, b.kind)),
			cmp.Compare(a.domain, b.domain), cmp.Compare(a.source, b.source))
	})
	var out []Energy
	for _, key := range keys {
		of := t[key]
		e := Energy{Source: key.source, Domain: key.domain, Kind: key.kind, Joules: of.used.scaled(1e-6), Watts: of.watts.value()}
		if j, ok := e.Joules.Get(); ok && !e.Watts.Valid() && secs > 0 {
			e.Watts.Set(j / secs)
		}
		out = append(out, e)
	}
	return out
}
