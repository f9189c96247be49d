package powerapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// counters adds up the intervals of reports.
type counters struct {
	start time.Time // of the first interval
	s     rt.Snapshot
	perf  map[counterKey]int // indices in s.Perf
	parts []powerPart        // of the power of the node since the last snapshot
}

// powerPart is the power of a part of the node, such as the cores of a socket, or its memory.
type powerPart struct {
	key   partKey
	watts float64
}

// partKey distinguishes the parts of one target.
type partKey struct{ scope, socket string }

func partOf(r *PowerReport) partKey {
	return partKey{fmt.Sprint(r.Metadata["scope"]), fmt.Sprint(r.Metadata["socket"])}
}

type counterKey struct {
	group       string
	socket, cpu uint64
	event       string
}

// newCounters returns all counters of the reports, at zero: a report counts the interval before it.
func newCounters(of []*targeted) *counters {
	c := &counters{perf: map[counterKey]int{}}
	for _, t := range of {
		c.addReport(t)
	}
	c.start = of[0].report.Head().Time.Add(-firstInterval(of))
	slices.SortFunc(c.s.Perf, func(a, b rt.PerfReading) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), cmp.Compare(a.Socket, b.Socket), cmp.Compare(a.CPU, b.CPU), strings.Compare(a.Event, b.Event))
	})
	slices.SortFunc(c.s.Energy, func(a, b rt.EnergyReading) int { return strings.Compare(a.Domain, b.Domain) })
	for i := range c.s.Perf {
		p := &c.s.Perf[i]
		p.Value.Set(0)
		p.TimeEnabled.Set(0)
		p.TimeRunning.Set(0)
		c.perf[counterKey{p.Group, p.Socket, p.CPU, p.Event}] = i
	}
	for i := range c.s.Energy {
		if e := &c.s.Energy[i]; e.Energy.Valid() {
			e.Energy.Set(0)
		}
	}
	c.clearPower()
	return c
}

// firstInterval returns the interval of the first reports, a second if they do not have it.
func firstInterval(of []*targeted) time.Duration {
	first := of[0].report.Head().Time
	interval := uint64(0)
	for _, t := range of {
		h, ok := t.report.(*HWPCReport)
		if !ok || !h.Time.Equal(first) {
			continue
		}
		for _, sockets := range h.Groups {
			for _, cpus := range sockets {
				for _, counters := range cpus {
					interval = max(interval, min(counters[TimeEnabled], uint64(time.Hour)))
				}
			}
		}
	}
	if interval == 0 {
		return time.Second
	}
	return time.Duration(interval)
}

func (c *counters) addReport(t *targeted) {
	switch r := t.report.(type) {
	case *HWPCReport:
		isOther := t.job == (target{}) && r.Target != All // a cgroup that is not a job's
		if t.part || isOther {
			return // the report of the job includes its steps; the records have the other cgroups
		}
		for group, sockets := range r.Groups {
			if group == GroupCore && r.Target == All {
				group = nodeGroup
			}
			for socket, cpus := range sockets {
				for cpu, counters := range cpus {
					c.addCPU(group, socket, cpu, counters)
				}
			}
		}
	case *PowerReport:
		if r.Target == All {
			c.addPower(r)
		}
	}
}

// addPower adds a power of the node or of a part of the node. The parts of one time add up.
func (c *counters) addPower(r *PowerReport) {
	i := slices.IndexFunc(c.parts, func(p powerPart) bool { return p.key == partOf(r) })
	if i < 0 {
		i = len(c.parts)
		c.parts = append(c.parts, powerPart{key: partOf(r)})
	}
	c.parts[i].watts = r.Power
	sum := 0.0
	for _, p := range c.parts {
		sum += p.watts
	}
	c.energy(All, rt.EnergyNode, rt.None[uint64]()).Power.Set(sum)
}

// clearPower drops the powers: they are valid for one instant.
func (c *counters) clearPower() {
	c.parts = c.parts[:0]
	for i := range c.s.Energy {
		c.s.Energy[i].Power.Clear()
	}
}

// addCPU adds the counters of one CPU.
func (c *counters) addCPU(group string, socket, cpu uint64, counters Counters) {
	for event, n := range counters {
		if event == TimeEnabled || event == TimeRunning {
			continue
		}
		key := counterKey{group, socket, cpu, event}
		i, ok := c.perf[key]
		if !ok {
			i = len(c.s.Perf)
			c.perf[key] = i
			c.s.Perf = append(c.s.Perf, rt.PerfReading{Group: group, Socket: socket, CPU: cpu, Event: event})
		}
		p := &c.s.Perf[i]
		p.Value.Set(p.Value.Or(0) + n)
		p.TimeEnabled.Set(p.TimeEnabled.Or(0) + counters[TimeEnabled])
		p.TimeRunning.Set(p.TimeRunning.Or(0) + counters[TimeRunning])
		for kind, name := range raplEvents {
			if group == GroupRAPL && name == event {
				e := c.energy(fmt.Sprintf("%s-%d-%d", kind, socket, cpu), kind, rt.Some(socket))
				e.Energy.Set(uint64(Joules(p.Value.Or(0))*1e6 + 0.5))
			}
		}
	}
}

func (c *counters) energy(domain string, kind rt.EnergyKind, socket rt.Opt[uint64]) *rt.EnergyReading {
	i := slices.IndexFunc(c.s.Energy, func(e rt.EnergyReading) bool { return e.Domain == domain })
	if i < 0 {
		i = len(c.s.Energy)
		c.s.Energy = append(c.s.Energy, rt.EnergyReading{Source: source, Domain: domain, Kind: kind, Socket: socket})
	}
	return &c.s.Energy[i]
}

// snapshot returns the sums up to now.
func (c *counters) snapshot(at time.Time, last bool) *rt.Snapshot {
	c.s.Seq++
	c.s.Wall, c.s.Boot, c.s.Reason = at.UnixNano(), at.UnixNano(), rt.ReasonTick
	switch {
	case c.s.Seq == 1:
		c.s.Reason = rt.ReasonFirst
	case last:
		c.s.Reason = rt.ReasonLast
	}
	return &c.s
}
