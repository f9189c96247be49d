package powerapi

import (
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Maker makes reports of the intervals of a run. The sensor is the name of the node. The target
// is <cluster>:<job>, <cluster>:<job>.<step> for a step, and All for the node.
type Maker struct {
	sensor, target string
	steps          bool            // the steps of the job have reports of their own
	idleWatts      float64         // as configured by the site; 0 for none
	least          rt.Opt[float64] // the least power so far, in watts
	watts          rt.Opt[float64] // of a power meter, when it was last read
	wattsAt        int64           // Boot of watts
}

// NewMaker returns a Maker for a run. Without idleWatts the idle power is the least power
// of the intervals so far.
func NewMaker(run *rt.Run, idleWatts float64) *Maker {
	m := &Maker{sensor: run.Node, target: run.Cluster + ":" + run.Label(), steps: run.Step == "", idleWatts: idleWatts}
	if !run.JobID.Valid() {
		m.target = run.FileStem()
	}
	return m
}

// Reports returns the reports of one interval and kind (hwpc, power or procfs): first the node (nil for none), then
// the job and its steps.
func (m *Maker) Reports(kind string, prev, cur *rt.Snapshot) (node Report, jobs []Report) {
	switch kind {
	case "hwpc":
		return m.hwpc(prev, cur)
	case "power":
		return m.power(prev, cur)
	}
	return m.procfs(prev, cur)
}

// ownMark is the key of the metadata with the kind of a report that rt made. The report of a
// formula may have the metadata of its input, but is of another kind.
const ownMark = "rt"

func (m *Maker) head(s *rt.Snapshot, kind string) Header {
	return Header{Time: time.Unix(0, s.Wall).UTC().Truncate(time.Microsecond), Sensor: m.sensor, Metadata: Metadata{ownMark: kind}}
}

// hwpc returns the counters of the node and of the job. Steps are not counted.
func (m *Maker) hwpc(prev, cur *rt.Snapshot) (node Report, jobs []Report) {
	j := &HWPCReport{Header: m.head(cur, "hwpc"), Target: m.target}
	n := &HWPCReport{Header: m.head(cur, "hwpc"), Target: All}
	before := map[string]*rt.PerfReading{}
	for i := range prev.Perf {
		before[perfKey(&prev.Perf[i])] = &prev.Perf[i]
	}
	for i := range cur.Perf {
		p := &cur.Perf[i]
		to := n
		if p.Group == GroupCore {
			to = j
		}
		if o := before[perfKey(p)]; o != nil {
			count(to, o, p)
		}
	}
	if n.Groups[GroupRAPL] == nil {
		m.rapl(n, prev, cur)
	}
	if len(j.Groups) > 0 {
		jobs = append(jobs, j)
	}
	if len(n.Groups) > 0 {
		node = n
	}
	return node, jobs
}

// nodeGroup is the group of readings with the events of GroupCore for the whole node.
const nodeGroup = "node"

func perfKey(p *rt.PerfReading) string { return fmt.Sprint(p.Group, " ", p.CPU, " ", p.Event) }

// count adds the differences of a counter and its times to a report, if none is absent.
func count(to *HWPCReport, before, now *rt.PerfReading) {
	var diffs [3]uint64
	for i, v := range [...][2]rt.Opt[uint64]{{before.Value, now.Value}, {before.TimeEnabled, now.TimeEnabled}, {before.TimeRunning, now.TimeRunning}} {
		grown, ok := rt.Delta(v[0], v[1]).Get()
		if !ok {
			return
		}
		diffs[i] = grown
	}
	group := now.Group
	if group == nodeGroup { // formulas distinguish the two by the target
		group = GroupCore
	}
	to.Set(group, now.Socket, now.CPU, now.Event, diffs[0])
	to.Set(group, now.Socket, now.CPU, TimeEnabled, diffs[1])
	to.Set(group, now.Socket, now.CPU, TimeRunning, diffs[2])
}

// raplEvents are the names of the counters of powercap in reports.
var raplEvents = map[rt.EnergyKind]string{
	rt.EnergyPackage: EventPackage, rt.EnergyDRAM: EventDRAM, rt.EnergyCore: EventCores,
	rt.EnergyUncore: EventUncore, rt.EnergyPlatform: EventPlatform,
}

// rapl adds the energy to the report of the node: for CPU 0 of each socket, summed over its dies.
func (m *Maker) rapl(to *HWPCReport, prev, cur *rt.Snapshot) {
	sums := map[[2]uint64]map[string]uint64{}
	for i := range cur.Energy {
		e := &cur.Energy[i]
		event, known := raplEvents[e.Kind]
		used, ok := e.UsedSince(prev, i).Get()
		if !known || !ok {
			continue
		}
		at := [2]uint64{e.Socket.Or(0), 0}
		if sums[at] == nil {
			sums[at] = map[string]uint64{}
		}
		sums[at][event] += used
	}
	interval := uint64(max(cur.Boot-prev.Boot, 0))
	for at, events := range sums {
		for event, microjoules := range events {
			if n, err := RAPLCount(microjoules); err == nil {
				to.Set(GroupRAPL, at[0], at[1], event, n)
			}
		}
		to.Set(GroupRAPL, at[0], at[1], TimeEnabled, interval)
		to.Set(GroupRAPL, at[0], at[1], TimeRunning, interval)
	}
}

// power returns the power of the node, and the share of the job in the power above the idle
// power. A step has the part of it that it has of the CPU time of the job.
func (m *Maker) power(prev, cur *rt.Snapshot) (node Report, jobs []Report) {
	secs := float64(cur.Boot-prev.Boot) / 1e9
	if secs <= 0 {
		return nil, nil
	}
	use := report.EnergyBetween(prev, cur)
	of := string(use.Of)
	for i := range cur.Energy {
		if e := &cur.Energy[i]; e.Kind == rt.EnergyNode && e.Power.Valid() {
			m.watts, m.wattsAt = e.Power, cur.Boot
		}
	}
	if watts, ok := m.watts.Get(); ok && cur.Boot-m.wattsAt <= int64(report.MeterHold) && !use.Node.Valid() {
		use.Node.Set(uint64(watts * secs * 1e6))
		of = "meter"
	}
	total, ok := use.Node.Get()
	if !ok {
		return nil, nil
	}
	watts := float64(total) / 1e6 / secs
	node = &PowerReport{Header: m.head(cur, "power"), Target: All, Power: watts}
	node.Head().Metadata["of"] = of
	all, used, by := use.Shared()
	if by == "" {
		return node, nil
	}
	_, share := report.ShareEnergy(total, uint64(m.idle(watts)*secs*1e6), all, used)
	put := func(target, method string, part float64) {
		p := &PowerReport{Header: m.head(cur, "power"), Target: target, Power: part * float64(share) / 1e6 / secs}
		p.Metadata["of"], p.Metadata["method"], p.Metadata["idle_watts"] = of, method, m.idle(watts)
		jobs = append(jobs, p)
	}
	put(m.target, string(by), 1)
	method := string(report.ByCPUTime)
	if by != report.ByCPUTime {
		method = string(by) + ", of the job by " + method
	}
	for _, s := range m.stepsBetween(prev, cur, use.Job) {
		put(m.target+"."+s.step, method, s.part)
	}
	return node, jobs
}

// stepUse is the part of a step in the CPU time of the job.
type stepUse struct {
	step string
	used uint64  // microseconds
	part float64 // from 0 to 1
}

// stepsBetween returns the steps that ran in an interval; none if the use of the job is unknown.
func (m *Maker) stepsBetween(prev, cur *rt.Snapshot, job rt.Opt[uint64]) (out []stepUse) {
	whole, ok := job.Get()
	if !ok || !m.steps {
		return nil
	}
	for i := range cur.Steps {
		s := &cur.Steps[i]
		now, ok := s.CPUUsage.Get()
		if s.Task.Valid() || !ok {
			continue
		}
		before := rt.Some[uint64](0)
		for k := range prev.Steps {
			if o := &prev.Steps[k]; o.Step == s.Step && !o.Task.Valid() {
				before = o.CPUUsage
			}
		}
		if was, ok := before.Get(); ok && now >= was {
			u := stepUse{step: s.Step, used: min(now-was, whole)} // step and job are not read at the same instant
			if whole > 0 {
				u.part = float64(u.used) / float64(whole)
			}
			out = append(out, u)
		}
	}
	return out
}

// idle returns the power of the idle node: as configured, or the least power so far.
func (m *Maker) idle(watts float64) float64 {
	if m.idleWatts > 0 {
		return m.idleWatts
	}
	if watts <= m.least.Or(watts) {
		m.least.Set(watts)
	}
	return m.least.Or(0)
}

// procfs returns the CPU use of the job and its steps, in percent of all CPUs of the node.
func (m *Maker) procfs(prev, cur *rt.Snapshot) (node Report, jobs []Report) {
	before, after, ok := rt.Both(prev.Node.CPU, cur.Node.CPU)
	job := report.EnergyBetween(prev, cur).Job
	used, isKnown := job.Get()
	if !ok || !isKnown || after.Total() <= before.Total() || after.Busy() < before.Busy() {
		return nil, nil
	}
	ticks := float64(after.Total() - before.Total())
	percent := func(micros uint64) float64 { return 100 * float64(micros) / 1e6 * rt.TicksPerSecond / ticks }
	r := &ProcfsReport{
		Header: m.head(cur, "procfs"), Targets: []string{m.target}, Usage: map[string]float64{m.target: percent(used)},
		GlobalCPUUsage: 100 * float64(after.Busy()-before.Busy()) / ticks,
	}
	for _, s := range m.stepsBetween(prev, cur, job) {
		target := m.target + "." + s.step
		r.Targets = append(r.Targets, target)
		r.Usage[target] = percent(s.used)
	}
	return nil, []Report{r}
}
