// Package ftdc converts a spooled run to FTDC and back. All figures of the run, its host
// and its ledger go through the format without loss.
package ftdc

import (
	"context"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/spool"
)

// Export writes every snapshot of the run as it was read:
// the readers of the format take differences themselves. What is known of the run
// and its host once, and the ledger, is in the first datum.
//
// The time of a datum is that of the first plus what the boot clock says has passed,
// so that a step of the clock changes no interval; snapshot.clock_secs is the step.
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
	book := newGuestBook()
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return err
		}
		book.meet(s)
	}
	e := newExport(w, &run, book.guests())
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

// runFacts is what a file has beside the snapshots.
type runFacts struct {
	run    rt.Run
	host   rt.Host
	events []rt.Event
}

type export struct {
	enc        *ftdc.Encoder
	of         *runFacts
	guests     guests
	names      map[string][]string          // of the figures of a struct, with their rests, by its prefix
	told       map[string]map[string]string // the texts of a device that are in the file, by its prefix
	datum      ftdc.FlatDatum
	wall, boot int64 // of the first snapshot
}

func newExport(w io.Writer, of *runFacts, g guests) *export {
	enc := ftdc.NewEncoder(w)
	enc.AnyTime = true // a machine that slept for days
	return &export{enc: enc, of: of, guests: g, names: map[string][]string{}, told: map[string]map[string]string{}}
}

func (e *export) write(s *rt.Snapshot) error {
	first := e.wall == 0
	if first {
		e.wall, e.boot = s.Wall, s.Boot
	}
	e.datum.Time, e.datum.Readings = e.wall+s.Boot-e.boot, e.datum.Readings[:0]
	e.one("snapshot.reason", float64(s.Reason))
	e.two("snapshot.boot_secs", float64(e.boot)/1e9)
	e.two("snapshot.clock_secs", float64(s.Wall-e.datum.Time)/1e9)
	if s.Node.ReadBoot != 0 {
		e.two("snapshot.node_read_secs", float64(s.Boot-s.Node.ReadBoot)/1e9)
	}
	for _, f := range fixed(s) {
		e.add(f.kind, f.v)
	}
	if times, ok := s.Node.CPU.Get(); ok {
		e.add("node.cpu", reflect.ValueOf(&times).Elem())
	}
	for i := range parts {
		if !parts[i].guest {
			e.part(&parts[i], s)
		}
	}
	e.guests.take(s, func(g *guest) {
		e.one(g.flags, float64(g.read))
		e.add(g.prefix, g.held)
	})
	if first {
		e.once()
	}
	return e.enc.EncodeDatum(&e.datum)
}

// part writes the elements of a list, and of their texts what has changed.
func (e *export) part(p *part, s *rt.Snapshot) {
	all := p.in(s)
	for k := range all.Len() {
		element := all.Index(k)
		key := p.key(element)
		prefix := p.kind + "." + key
		e.add(prefix, element)
		if times := element.FieldByName("Times"); times.IsValid() {
			e.add(prefix, times)
		}
		if len(wordsOf(element.Type())) == 0 {
			continue
		}
		e.texts(p, key, element)
	}
}

// texts writes the texts of a device that are others than before.
func (e *export) texts(p *part, key string, element reflect.Value) {
	told := e.told[p.kind+"."+key]
	if told == nil {
		told = map[string]string{}
		e.told[p.kind+"."+key] = told
	}
	now := map[string]string{}
	eachWord(element, func(name, text string) { now[name] = text })
	for name := range told {
		now[name] += "" // it is empty now
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if told[name] != now[name] {
			told[name] = now[name]
			e.one(info(p.kind, key+"."+name, now[name]), 1)
		}
	}
}

// once writes what is known of the run as a whole.
func (e *export) once() {
	run := &e.of.run
	e.add("run", reflect.ValueOf(run).Elem())
	for _, t := range runTimes(run) {
		if !t.at.IsZero() {
			e.two("run."+t.name, e.since(*t.at))
		}
	}
	runWords(run, func(name, text string) { e.one(info("run", name, text), 1) })
	host := reflect.ValueOf(&e.of.host).Elem()
	e.add("host", host)
	eachWord(host, func(name, text string) { e.one(info("host", name, text), 1) })
	lines := slices.DeleteFunc(slices.Clone(e.of.events), ofTheFile)
	if more := len(lines) - maxLedger; more > 0 {
		lines = slices.Delete(lines, maxLedger/2, maxLedger/2+more)
	}
	for i := range lines {
		e.two(ledgerName(i, &lines[i]), e.since(lines[i].Time))
	}
}

// since is seconds after the first snapshot.
func (e *export) since(t time.Time) float64 { return float64(t.UnixNano()-e.wall) / 1e9 }

// runTimes are written as seconds after the first snapshot.
func runTimes(run *rt.Run) []runTime {
	return []runTime{
		{"start_secs", &run.Start}, {"end_secs", &run.End}, {"job_start_secs", &run.JobStart}, {"job_end_limit_secs", &run.JobEndLimit},
	}
}

type runTime struct {
	name string
	at   *time.Time
}

// add writes the figures of a struct that were read.
func (e *export) add(prefix string, v reflect.Value) {
	numbers := numbersOf(v.Type())
	key := v.Type().Name() + " " + prefix
	names, ok := e.names[key]
	if !ok {
		for _, n := range numbers {
			names = append(names, prefix+"."+n.name, prefix+"."+n.name+RestSuffix)
		}
		e.names[key] = names
	}
	for i, n := range numbers {
		if f, ok := figure(v.FieldByIndex(n.index)); ok {
			value, rest := split(f)
			e.datum.Readings = append(e.datum.Readings, ftdc.Reading{MetricName: names[2*i], Value: value}, ftdc.Reading{MetricName: names[2*i+1], Value: rest})
		}
	}
}

func (e *export) one(name string, v float64) {
	e.datum.Readings = append(e.datum.Readings, ftdc.Reading{MetricName: name, Value: float32(v)})
}

func (e *export) two(name string, v float64) {
	value, rest := split(v)
	e.datum.Readings = append(e.datum.Readings, ftdc.Reading{MetricName: name, Value: value}, ftdc.Reading{MetricName: name + RestSuffix, Value: rest})
}
