package ftdc

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Export writes every snapshot of the run with the counters as they were read: readers compute
// differences themselves. The run, its host and the ledger are in the first datum.
//
// The time of a datum is the first time plus the difference of the boot clock. So a step of the wall clock changes no
// interval. snapshot.clock_secs is that step.
func Export(ctx context.Context, w io.Writer, r *spool.Reader) error {
	events, err := r.Events()
	if err != nil {
		return err
	}
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	run := runFacts{run: r.Run(), host: r.Host(), events: events}
	survey := newProcessSurvey()
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return err
		}
		survey.addSnapshot(s)
	}
	e := newExport(w, &run, survey.selected())
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return err
		}
		if err := e.write(s); err != nil {
			return fmt.Errorf("%s: snapshot %d: %w", r.Path(), s.Seq, err)
		}
	}
	return nil
}

// runFacts is the content of a file other than the snapshots.
type runFacts struct {
	run    rt.Run
	host   rt.Host
	events []rt.Event
}

type export struct {
	enc        *Encoder
	of         *runFacts
	processes  transients
	written    map[string]map[string]string // the texts of a device that are in the file, by its prefix
	datum      FlatDatum
	wall, boot int64 // of the first snapshot
}

func newExport(w io.Writer, of *runFacts, processes transients) *export {
	enc := NewEncoder(w)
	enc.AnyTime = true // the machine may have been suspended for days
	return &export{enc: enc, of: of, processes: processes, written: map[string]map[string]string{}}
}

func (e *export) write(s *rt.Snapshot) error {
	first := e.wall == 0
	if first {
		e.wall, e.boot = s.Wall, s.Boot
	}
	e.datum.Time, e.datum.Readings = e.wall+s.Boot-e.boot, e.datum.Readings[:0]
	e.addNumber("snapshot.reason", float64(s.Reason))
	e.addFigure("snapshot.boot_secs", float64(e.boot)/1e9)
	e.addFigure("snapshot.clock_secs", float64(s.Wall-e.datum.Time)/1e9)
	if s.Node.ReadBoot != 0 {
		e.addFigure("snapshot.node_read_secs", float64(s.Boot-s.Node.ReadBoot)/1e9)
	}
	for _, f := range fixed(s) {
		e.addFigures(f.kind, f.figures)
	}
	if times, ok := s.Node.CPU.Get(); ok {
		e.addFigures("node.cpu", timesOf(&times))
	}
	for i := range parts {
		if !parts[i].transient {
			e.addPart(&parts[i], s)
		}
	}
	e.processes.eachIn(s, func(t *transient) {
		e.addNumber(t.flags, float64(t.read))
		for i, name := range t.names {
			if v, ok := t.held[i].Get(); ok {
				e.addFigure(name, v)
			}
		}
	})
	if first {
		e.addFacts()
	}
	return e.enc.EncodeDatum(&e.datum)
}

// addPart writes the elements of a list, and the texts that have changed.
func (e *export) addPart(p *part, s *rt.Snapshot) {
	for k := range p.len(s) {
		element := p.at(s, k)
		key := element.name()
		e.addFigures(p.kind+"."+key, element.figures)
		if len(element.texts) > 0 {
			e.addTexts(p.kind, key, element.texts)
		}
	}
}

func (e *export) addTexts(kind, key string, texts []field) {
	written := e.written[kind+"."+key]
	if written == nil {
		written = map[string]string{}
		e.written[kind+"."+key] = written
	}
	now := map[string]string{}
	eachText(texts, func(name, text string) { now[name] = text })
	for name := range written {
		now[name] += "" // a text that is gone is empty
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if written[name] != now[name] {
			written[name] = now[name]
			e.addNumber(info(kind, key+"."+name, now[name]), 1)
		}
	}
}

// addFacts writes the facts of the run.
func (e *export) addFacts() {
	run := &e.of.run
	e.addFigures("run", runOf(run).figures)
	for _, t := range runTimes(run) {
		if !t.at.IsZero() {
			e.addFigure("run."+t.name, e.since(*t.at))
		}
	}
	eachRunText(run, func(name, text string) { e.addNumber(info("run", name, text), 1) })
	host := hostOf(&e.of.host)
	e.addFigures("host", host.figures)
	eachText(host.texts, func(name, text string) { e.addNumber(info("host", name, text), 1) })
	lines := slices.DeleteFunc(slices.Clone(e.of.events), ofTheFile)
	if more := len(lines) - maxLedger; more > 0 {
		lines = slices.Delete(lines, maxLedger/2, maxLedger/2+more)
	}
	for i := range lines {
		e.addFigure(ledgerName(i, &lines[i]), e.since(lines[i].Time))
	}
}

// since returns the seconds from the first snapshot to t.
func (e *export) since(t time.Time) float64 { return float64(t.UnixNano()-e.wall) / 1e9 }

// runTimes returns the times of a run that are written as seconds after the first snapshot.
func runTimes(run *rt.Run) []runTime {
	return []runTime{
		{"start_secs", &run.Start}, {"end_secs", &run.End}, {"job_start_secs", &run.JobStart}, {"job_end_limit_secs", &run.JobEndLimit},
	}
}

type runTime struct {
	name string
	at   *time.Time
}

// addFigures writes the figures that were read.
func (e *export) addFigures(prefix string, figures []field) {
	for _, f := range figures {
		if v, ok := f.figure(); ok {
			e.addFigure(prefix+"."+f.name, v)
		}
	}
}

func (e *export) addFigure(name string, v float64) {
	value, rest := split(v)
	e.datum.Readings = append(e.datum.Readings, Reading{MetricName: name, Value: value}, Reading{MetricName: name + RestSuffix, Value: rest})
}

func (e *export) addNumber(name string, v float64) {
	e.datum.Readings = append(e.datum.Readings, Reading{MetricName: name, Value: float32(v)})
}
