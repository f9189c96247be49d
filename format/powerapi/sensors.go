package powerapi

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// Sensors summarizes the reports of other sensors that are stored with a run.
func Sensors(ctx context.Context, r *spool.Reader) ([]report.Sensor, error) {
	kept, err := storedReports(ctx, r, "")
	if err != nil {
		return nil, err
	}
	sums := map[sensorKey]*sensorSum{}
	for _, of := range kept {
		for _, target := range targetsOf(of) {
			k := sensorKey{of.Head().Sensor, target, kindOfReport(of)}
			if sums[k] == nil {
				sums[k] = &sensorSum{parts: map[partKey]*mean{}}
			}
			sums[k].addReport(of, target)
		}
	}
	var out []report.Sensor
	for k, s := range sums {
		out = append(out, s.sensor(k))
	}
	slices.SortFunc(out, func(a, b report.Sensor) int {
		return cmp.Or(strings.Compare(a.Sensor, b.Sensor), strings.Compare(a.Target, b.Target), strings.Compare(a.Kind, b.Kind))
	})
	return out, nil
}

type sensorKey struct{ sensor, target, kind string }

// sensorSum adds up the reports of one sensor, target and kind.
type sensorSum struct {
	n       int
	usage   mean
	parts   map[partKey]*mean // powers; the parts add up
	joules  float64
	counted bool
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) addValue(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) value() float64 { return m.sum / float64(m.n) }

func (s *sensorSum) addReport(of Report, target string) {
	s.n++
	switch of := of.(type) {
	case *PowerReport:
		part := partOf(of)
		if s.parts[part] == nil {
			s.parts[part] = &mean{}
		}
		s.parts[part].addValue(of.Power)
	case *ProcfsReport:
		if v, ok := of.Usage[target]; ok {
			s.usage.addValue(v)
		}
	case *HWPCReport:
		joules, counted := raplJoules(of)
		s.joules, s.counted = s.joules+joules, s.counted || counted
	}
}

func (s *sensorSum) sensor(k sensorKey) report.Sensor {
	of := report.Sensor{Sensor: k.sensor, Target: k.target, Kind: k.kind, Reports: s.n}
	if len(s.parts) > 0 {
		parts := make([]float64, 0, len(s.parts))
		for _, m := range s.parts {
			parts = append(parts, m.value())
		}
		slices.Sort(parts) // the last digits of a sum depend on its order
		sum := 0.0
		for _, watts := range parts {
			sum += watts
		}
		of.MeanWatts.Set(sum)
	}
	if s.usage.n > 0 {
		of.MeanPct.Set(s.usage.value())
	}
	if s.counted {
		of.Joules.Set(s.joules)
	}
	return of
}

// raplJoules returns the energy of packages and their memory in a report.
func raplJoules(of *HWPCReport) (joules float64, counted bool) {
	for _, cpus := range of.Groups[GroupRAPL] {
		for _, counters := range cpus {
			for _, event := range [...]string{EventPackage, EventDRAM} {
				if n, ok := counters[event]; ok {
					joules, counted = joules+Joules(n), true
				}
			}
		}
	}
	return joules, counted
}
