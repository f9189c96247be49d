package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/spool"
)

// exportFTDC writes every snapshot of the run as it was read, whatever the scope:
// the readers of the format take differences themselves. Of the run itself it writes
// the numbers, and as metrics of value 1 the words that say which run it was.
//
// The time of a datum is that of the first plus what the boot clock says has passed,
// so that a step of the clock changes no interval; snapshot.clock_secs is the step.
func exportFTDC(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
	run := r.Run()
	e := newFTDCExport(w)
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	for s, err := range r.Snapshots(ctx, 1, last) {
		if err != nil {
			return fmt.Errorf("%s: %w", r.Path(), err)
		}
		if err := e.write(&run, s); err != nil {
			return fmt.Errorf("%s: snapshot %d: %w", r.Path(), s.Seq, err)
		}
	}
	return nil
}

type ftdcExport struct {
	enc        *ftdc.Encoder
	names      map[string][]string // of the figures of a struct, with their rests, by its prefix
	datum      ftdc.FlatDatum
	wall, boot int64 // of the first snapshot
}

func newFTDCExport(w io.Writer) *ftdcExport {
	enc := ftdc.NewEncoder(w)
	enc.AnyTime = true // a machine that slept for days
	return &ftdcExport{enc: enc, names: map[string][]string{}}
}

func (e *ftdcExport) write(run *rt.Run, s *rt.Snapshot) error {
	if e.wall == 0 {
		e.wall, e.boot = s.Wall, s.Boot
	}
	e.datum.Time, e.datum.Readings = e.wall+s.Boot-e.boot, e.datum.Readings[:0]
	e.one("snapshot.reason", float64(s.Reason))
	e.two("snapshot.boot_secs", float64(e.boot)/1e9)
	e.two("snapshot.clock_secs", float64(s.Wall-e.datum.Time)/1e9)
	if s.Node.ReadBoot != 0 {
		e.two("snapshot.node_read_secs", float64(s.Boot-s.Node.ReadBoot)/1e9)
	}
	e.run(run)
	for _, f := range fixed(s) {
		e.add(f.kind, f.v)
	}
	if times, ok := s.Node.CPU.Get(); ok {
		e.add("node.cpu", reflect.ValueOf(&times).Elem())
	}
	for i := range parts {
		all := parts[i].in(s)
		for k := range all.Len() {
			element := all.Index(k)
			e.add(parts[i].kind+"."+parts[i].key(element), element)
			if times := element.FieldByName("Times"); times.IsValid() {
				e.add(parts[i].kind+"."+parts[i].key(element), times)
			}
		}
	}
	return e.enc.EncodeDatum(&e.datum)
}

// run writes what report needs to know of the run.
func (e *ftdcExport) run(run *rt.Run) {
	e.add("run", reflect.ValueOf(run).Elem())
	for _, t := range runTimes(run) {
		if !t.at.IsZero() {
			e.two("run."+t.name, float64(t.at.UnixNano()-e.wall)/1e9)
		}
	}
	for _, w := range runWords(run) {
		if *w.text != "" {
			e.one("run_info."+w.name+"."+strings.ToValidUTF8(*w.text, "?"), 1)
		}
	}
	if len(run.Command) > 0 {
		e.one("run_info.command."+strings.ToValidUTF8(filepath.Base(run.Command[0]), "?"), 1)
	}
}

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

type runWord struct {
	name string
	text *string
}

func runWords(run *rt.Run) []runWord {
	return []runWord{
		{"cluster", &run.Cluster}, {"node", &run.Node}, {"step", &run.Step}, {"sluid", &run.SLUID}, {"boot_id", &run.BootID},
		{"scheduler", &run.Scheduler}, {"user", &run.User}, {"group", &run.Group}, {"account", &run.Account},
		{"partition", &run.Partition}, {"qos", &run.QOS}, {"gpus", &run.GPUs}, {"job_name", &run.Meta.JobName},
		{"outcome", (*string)(&run.Outcome)}, {"outcome_source", &run.OutcomeSource},
		{"cgroup_layout", &run.CgroupLayout}, {"tracker_version", &run.TrackerVersion},
	}
}

// add writes the figures of a struct that were read.
func (e *ftdcExport) add(prefix string, v reflect.Value) {
	numbers := numbersOf(v.Type())
	key := v.Type().Name() + " " + prefix
	names, ok := e.names[key]
	if !ok {
		for _, n := range numbers {
			names = append(names, prefix+"."+n.name, prefix+"."+n.name+restSuffix)
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

func (e *ftdcExport) one(name string, v float64) {
	e.datum.Readings = append(e.datum.Readings, ftdc.Reading{MetricName: name, Value: float32(v)})
}

func (e *ftdcExport) two(name string, v float64) {
	value, rest := split(v)
	e.datum.Readings = append(e.datum.Readings, ftdc.Reading{MetricName: name, Value: value}, ftdc.Reading{MetricName: name + restSuffix, Value: rest})
}
