package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// powerapiSource is what the records of imported reports are called.
const powerapiSource = "powerapi"

// importPowerAPI makes a run of each job and sensor that the reports name, and of a
// sensor that names no job one run. What is told of the node goes into all runs of
// its sensor. The reports are kept with the runs as they came, and what they counted
// of energy and events is in their readings.
func importPowerAPI(dir, name string, r io.Reader) ([]string, error) {
	im := powerapiImport{sensors: map[string]*powerapiSensor{}}
	bad := 0
	for report, err := range decodePowerAPI(name, r) {
		if err == nil {
			err = im.add(report)
		}
		if err != nil {
			bad++
			im.failed = errors.Join(im.failed, err)
			if bad >= maxBadReports {
				im.failed = errors.Join(im.failed, errors.New("and no more is read"))
				break
			}
		}
	}
	if len(im.sensors) == 0 {
		return nil, errors.Join(im.failed, errors.New("it holds no report of PowerAPI"))
	}
	made, err := im.write(dir, name)
	return made, errors.Join(err, im.failed)
}

// maxBadReports are named before a file is given up.
const maxBadReports = 20

// decodePowerAPI reads JSON, or CSV of a group that is called like the file.
func decodePowerAPI(name string, r io.Reader) iter.Seq2[powerapi.Report, error] {
	text := bufio.NewReader(r)
	for {
		b, err := text.Peek(1)
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			if err == nil && b[0] != '{' {
				group := filepath.Base(name)
				return powerapi.DecodeCSV(text, strings.TrimSuffix(group, filepath.Ext(group)))
			}
			return powerapi.Decoder{}.Decode(text)
		}
		_, _ = text.Discard(1) // it was there
	}
}

type powerapiImport struct {
	sensors map[string]*powerapiSensor
	failed  error
}

// powerapiSensor has the reports of one node.
type powerapiSensor struct {
	jobs map[string]bool // targets that are jobs
	all  []targeted
}

// targeted is a report and whom it is about; it is empty for the node.
type targeted struct {
	target string
	report powerapi.Report
}

func (im *powerapiImport) add(report powerapi.Report) error {
	head := report.Head()
	s := im.sensors[head.Sensor]
	if s == nil {
		s = &powerapiSensor{jobs: map[string]bool{}}
		im.sensors[head.Sensor] = s
	}
	var targets []string
	switch r := report.(type) {
	case *powerapi.HWPCReport:
		targets = []string{r.Target}
	case *powerapi.PowerReport:
		targets = []string{r.Target}
	case *powerapi.ProcfsReport:
		targets = r.Targets
	}
	for _, target := range targets {
		if _, _, ok := powerapiJob(target); ok {
			s.jobs[target] = true
		} else {
			target = "" // of the node, or of what is no job
		}
		s.all = append(s.all, targeted{target, report})
	}
	return nil
}

// powerapiJob reads <cluster>:<job id>.
func powerapiJob(target string) (cluster string, id uint64, ok bool) {
	at := strings.LastIndexByte(target, ':')
	if at < 0 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(target[at+1:], 10, 32)
	return target[:at], id, err == nil && id > 0
}

func (im *powerapiImport) write(dir, name string) ([]string, error) {
	var made []string
	for _, sensor := range slices.Sorted(maps.Keys(im.sensors)) {
		s := im.sensors[sensor]
		slices.SortStableFunc(s.all, func(a, b targeted) int { return a.report.Head().Time.Compare(b.report.Head().Time) })
		targets := slices.Sorted(maps.Keys(s.jobs))
		if len(targets) == 0 {
			targets = []string{""}
		}
		for _, target := range targets {
			path, err := s.writeRun(dir, name, sensor, target)
			if errors.Is(err, spool.ErrExists) {
				continue // it is in the spool, and stays as it is
			}
			if err != nil {
				return made, fmt.Errorf("%s on %s: %w", target, sensor, err)
			}
			made = append(made, path)
		}
	}
	return made, nil
}

func (s *powerapiSensor) writeRun(dir, name, sensor, target string) (string, error) {
	var of []targeted
	for _, t := range s.all {
		if t.target == target || t.target == "" {
			of = append(of, t)
		}
	}
	counted := newPowerapiCounters(of)
	run := rt.Run{Node: sensor, Start: counted.start, End: of[len(of)-1].report.Head().Time, TrackerVersion: "powerapi", State: rt.StateRunning}
	if cluster, id, ok := powerapiJob(target); ok {
		run.Cluster = cluster
		run.JobID.Set(id)
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: sensor}, spool.Options{})
	if err != nil {
		return "", err
	}
	w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from PowerAPI's reports in " + name})
	err = w.Put(counted.snapshot(counted.start, false))
	for i := 0; i < len(of) && err == nil; {
		at := of[i].report.Head().Time
		for ; i < len(of) && err == nil && of[i].report.Head().Time.Equal(at); i++ {
			counted.add(of[i])
			err = keepReport(w, of[i].report)
		}
		if err == nil {
			err = w.Put(counted.snapshot(at, i == len(of)))
		}
	}
	run.State, run.Outcome = rt.StateEnded, rt.OutcomeUnknown
	if err == nil {
		err = w.End(run)
	}
	if err != nil {
		return "", errors.Join(err, discardRun(w))
	}
	return w.Path(), nil
}

// keepReport keeps a report with the run.
func keepReport(w *spool.Writer, report powerapi.Report) error {
	line, err := report.AppendJSON(nil, powerapi.ISO)
	if err != nil {
		return err
	}
	return w.Record(rt.Record{Time: report.Head().Time.UnixNano(), Source: powerapiSource, Body: line[:len(line)-1]})
}

// powerapiCounters adds up what reports tell of intervals.
type powerapiCounters struct {
	start time.Time // of the first interval
	s     rt.Snapshot
	perf  map[counterKey]int
	watts map[string]int // domains of s.Energy
}

type counterKey struct {
	group       string
	socket, cpu uint64
	event       string
}

// newPowerapiCounters has all counters of the reports, at zero: a report tells what
// was counted in the interval before it.
func newPowerapiCounters(of []targeted) *powerapiCounters {
	c := &powerapiCounters{perf: map[counterKey]int{}, watts: map[string]int{}}
	first := of[0].report.Head().Time
	interval := uint64(0)
	for _, t := range of {
		c.add(t)
		if h, ok := t.report.(*powerapi.HWPCReport); ok && h.Time.Equal(first) {
			for _, sockets := range h.Groups {
				for _, cpus := range sockets {
					for _, counters := range cpus {
						interval = max(interval, min(counters[powerapi.TimeEnabled], uint64(time.Hour)))
					}
				}
			}
		}
	}
	if interval == 0 {
		interval = uint64(time.Second)
	}
	c.start = first.Add(-time.Duration(interval))
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
		e := &c.s.Energy[i]
		c.watts[e.Domain] = i
		if e.Power.Clear(); e.Energy.Valid() {
			e.Energy.Set(0)
		}
	}
	return c
}

func (c *powerapiCounters) add(t targeted) {
	switch r := t.report.(type) {
	case *powerapi.HWPCReport:
		if t.target == "" && r.Target != powerapi.All {
			return // of a cgroup that is no job: the records have it
		}
		for group, sockets := range r.Groups {
			for socket, cpus := range sockets {
				for cpu, counters := range cpus {
					c.counters(group, socket, cpu, counters)
				}
			}
		}
	case *powerapi.PowerReport:
		if r.Target == powerapi.All {
			c.energy(powerapi.All, rt.EnergyNode, rt.None[uint64]()).Power.Set(r.Power)
		}
	}
}

// counters adds one CPU's.
func (c *powerapiCounters) counters(group string, socket, cpu uint64, counters powerapi.Counters) {
	for event, n := range counters {
		if event == powerapi.TimeEnabled || event == powerapi.TimeRunning {
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
		p.TimeEnabled.Set(p.TimeEnabled.Or(0) + counters[powerapi.TimeEnabled])
		p.TimeRunning.Set(p.TimeRunning.Or(0) + counters[powerapi.TimeRunning])
		for kind, name := range raplEvents {
			if group == powerapi.GroupRAPL && name == event {
				e := c.energy(fmt.Sprintf("%s-%d-%d", kind, socket, cpu), kind, rt.Some(socket))
				e.Energy.Set(uint64(powerapi.Joules(p.Value.Or(0))*1e6 + 0.5))
			}
		}
	}
}

func (c *powerapiCounters) energy(domain string, kind rt.EnergyKind, socket rt.Opt[uint64]) *rt.EnergyReading {
	i, ok := c.watts[domain]
	if !ok {
		i = len(c.s.Energy)
		c.watts[domain] = i
		c.s.Energy = append(c.s.Energy, rt.EnergyReading{Source: powerapiSource, Domain: domain, Kind: kind, Socket: socket})
	}
	return &c.s.Energy[i]
}

// snapshot is what was counted up to now.
func (c *powerapiCounters) snapshot(at time.Time, last bool) *rt.Snapshot {
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
