package main

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// otherSensors sums up the reports of other sensors that are kept with a run.
func otherSensors(ctx context.Context, r *spool.Reader) ([]report.Sensor, error) {
	kept, err := keptReports(ctx, r, "")
	if err != nil {
		return nil, err
	}
	type key struct{ sensor, target, kind string }
	type sum struct {
		n             int
		value, joules float64
		counted       bool
	}
	sums := map[key]*sum{}
	for _, of := range kept {
		for _, target := range targetsOf(of) {
			k := key{of.Head().Sensor, target, kindOfReport(of)}
			if sums[k] == nil {
				sums[k] = &sum{}
			}
			s := sums[k]
			s.n++
			switch of := of.(type) {
			case *powerapi.PowerReport:
				s.value += of.Power
			case *powerapi.ProcfsReport:
				s.value += of.Usage[target]
			case *powerapi.HWPCReport:
				joules, counted := raplJoules(of)
				s.joules, s.counted = s.joules+joules, s.counted || counted
			}
		}
	}
	var out []report.Sensor
	for k, s := range sums {
		of := report.Sensor{Sensor: k.sensor, Target: k.target, Kind: k.kind, Reports: s.n}
		switch {
		case k.kind == "power":
			of.MeanWatts.Set(s.value / float64(s.n))
		case k.kind == "procfs":
			of.MeanPct.Set(s.value / float64(s.n))
		case s.counted:
			of.Joules = rt.Some(s.joules)
		}
		out = append(out, of)
	}
	slices.SortFunc(out, func(a, b report.Sensor) int {
		return cmp.Or(strings.Compare(a.Sensor, b.Sensor), strings.Compare(a.Target, b.Target), strings.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

// raplJoules is what a report counted of packages and their memory.
func raplJoules(of *powerapi.HWPCReport) (joules float64, counted bool) {
	for _, cpus := range of.Groups[powerapi.GroupRAPL] {
		for _, counters := range cpus {
			for _, event := range [...]string{powerapi.EventPackage, powerapi.EventDRAM} {
				if n, ok := counters[event]; ok {
					joules, counted = joules+powerapi.Joules(n), true
				}
			}
		}
	}
	return joules, counted
}
