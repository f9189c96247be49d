package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/spool"
)

// errNoRun says that a file is FTDC of something else.
var errNoRun = errors.New("it holds no run of rt: a metric that every reading has is not there; rt-spool ftdc shows what is")

// importFTDC makes a run of what exportFTDC has written.
func importFTDC(dir, name string, r io.Reader) ([]string, error) {
	im := ftdcImport{dec: ftdc.NewDecoder(r)}
	im.dec.AnyTime = true // as it was exported
	w, err := im.begin(dir)
	if err != nil {
		return nil, err
	}
	discard := func(err error) ([]string, error) {
		err = errors.Join(err, w.Close())
		damaged, openErr := spool.Open(w.Path())
		if openErr != nil {
			return nil, errors.Join(err, openErr)
		}
		return nil, errors.Join(err, damaged.Remove())
	}
	for err == nil {
		if err := w.Put(&im.s); err != nil {
			return discard(err)
		}
		err = im.next()
	}
	if err != io.EOF {
		return discard(err)
	}
	w.Event(rt.Event{Time: im.run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the FTDC file " + name})
	if err := w.End(im.run); err != nil {
		return discard(err)
	}
	return []string{w.Path()}, nil
}

// ftdcImport goes through the snapshots of a file.
type ftdcImport struct {
	dec     *ftdc.Decoder
	schemas int
	setters []setter
	s       rt.Snapshot
	run     rt.Run
	first   int64 // the time of the first datum
	last    int64 // and of the newest
	at      struct{ reason, boot, clock, nodeRead, nodeReadKnown float64 }
}

// setter puts one figure where it belongs.
type setter struct {
	name        string
	value, rest int // of the datum; rest is -1 where there is none
	set         func(v float64) error
}

// begin reads the first snapshot and makes the run.
func (im *ftdcImport) begin(dir string) (*spool.Writer, error) {
	err := im.next()
	if err == io.EOF {
		return nil, fmt.Errorf("it has no reading: %w", errNoRun)
	}
	if err != nil {
		return nil, err
	}
	im.run.State = rt.StateRunning
	if im.run.Start.IsZero() {
		im.run.Start = time.Unix(0, im.first).UTC()
	}
	w, err := spool.Create(dir, im.run, rt.Host{HostName: im.run.Node}, spool.Options{CommitRows: 128, CommitInterval: time.Hour})
	if errors.Is(err, spool.ErrExists) {
		return nil, &kindError{spool.ErrExists, fmt.Errorf("its run is in the spool already, as %s.db: that stays as it is; rt-spool --spool DIR import puts it into another one", filepath.Join(dir, im.run.FileStem()))}
	}
	return w, err
}

// next reads the next datum into the snapshot.
func (im *ftdcImport) next() error {
	at, err := im.dec.Next()
	if err != nil {
		return err
	}
	if im.s.Seq == 0 {
		im.first = at
	} else if at < im.last {
		return fmt.Errorf("the reading before byte %d: %w", im.dec.Offset(), ftdc.ErrTime)
	}
	im.last = at
	if im.dec.Schemas() != im.schemas {
		im.schemas = im.dec.Schemas()
		if err := im.plan(im.dec.Names()); err != nil {
			return err
		}
	}
	values := im.dec.Values()
	im.at.nodeReadKnown = 0
	for _, s := range im.setters {
		v := float64(values[s.value])
		if s.rest >= 0 && !math.IsInf(v, 0) {
			v = join(values[s.value], values[s.rest])
		}
		if err := s.set(v); err != nil {
			return fmt.Errorf("the reading before byte %d: metric %q: %w", im.dec.Offset(), s.name, err)
		}
	}
	im.s.Seq++
	im.s.Reason = rt.Reason(im.at.reason)
	im.s.Boot = seconds(im.at.boot) + at - im.first
	im.s.Wall = at + seconds(im.at.clock)
	im.s.Node.ReadBoot = 0
	if im.at.nodeReadKnown != 0 {
		im.s.Node.ReadBoot = im.s.Boot - seconds(im.at.nodeRead)
	}
	return nil
}

// seconds are nanoseconds, to the microsecond that the spool keeps.
func seconds(s float64) int64 { return int64(math.Round(s*1e6)) * 1000 }

// plan finds the place of each metric of a schema in a new snapshot. Metrics that
// are not known are those of a newer rt.
func (im *ftdcImport) plan(names []string) error {
	im.s = rt.Snapshot{Seq: im.s.Seq}
	index := make(map[string]int, len(names))
	for i, n := range names {
		index[n] = i
	}
	targets := newTargets(&im.s, names)
	im.setters = im.setters[:0]
	for i, n := range names {
		base, isRest := strings.CutSuffix(n, restSuffix)
		if _, pair := index[base]; isRest && pair {
			continue
		}
		s := setter{name: n, value: i, rest: -1}
		if rest, ok := index[n+restSuffix]; ok {
			s.rest = rest
		}
		var err error
		if s.set, err = im.target(targets, n); err != nil {
			return fmt.Errorf("the schema before byte %d: %w", im.dec.Offset(), err)
		}
		if s.set != nil {
			im.setters = append(im.setters, s)
		}
	}
	for _, n := range []string{"snapshot.reason", "snapshot.boot_secs", "snapshot.clock_secs", "job.phase"} {
		if _, ok := index[n]; !ok {
			return fmt.Errorf("the schema before byte %d: %q: %w", im.dec.Offset(), n, errNoRun)
		}
	}
	return nil
}

// target returns what puts a metric's value into place, nil where it has none.
func (im *ftdcImport) target(t *targets, name string) (func(float64) error, error) {
	into := func(to *float64, most float64) func(float64) error {
		return func(v float64) error {
			if !(math.Abs(v) <= most) {
				return fmt.Errorf("%v is out of range", v)
			}
			*to = v
			return nil
		}
	}
	const most = 1e9 // seconds: 30 years
	switch name {
	case "snapshot.reason":
		set := into(&im.at.reason, float64(rt.ReasonStop))
		return func(v float64) error {
			if v < 0 || v != math.Trunc(v) {
				return fmt.Errorf("%v is no reason of a reading", v)
			}
			return set(v)
		}, nil
	case "snapshot.boot_secs":
		return into(&im.at.boot, most), nil
	case "snapshot.clock_secs":
		return into(&im.at.clock, most), nil
	case "snapshot.node_read_secs":
		set := into(&im.at.nodeRead, most)
		return func(v float64) error { im.at.nodeReadKnown = 1; return set(v) }, nil
	}
	if set, ok := im.runTarget(name); ok {
		return set, nil
	}
	return t.find(name)
}

// runTarget takes what is known of the run from the first schema alone.
func (im *ftdcImport) runTarget(name string) (set func(float64) error, ok bool) {
	if info, isInfo := strings.CutPrefix(name, "run_info."); isInfo {
		field, text, _ := strings.Cut(info, ".")
		for _, w := range runWords(&im.run) {
			if w.name == field && im.schemas == 1 {
				*w.text = text
			}
		}
		if field == "command" && im.schemas == 1 {
			im.run.Command = []string{text}
		}
		return nil, true
	}
	field, isRun := strings.CutPrefix(name, "run.")
	if !isRun || im.schemas > 1 {
		return nil, isRun
	}
	for _, t := range runTimes(&im.run) {
		if t.name == field {
			return func(v float64) error {
				if !(math.Abs(v) <= 1e10) {
					return fmt.Errorf("%v is out of range", v)
				}
				*t.at = time.Unix(0, im.first+seconds(v)).UTC()
				return nil
			}, true
		}
	}
	run := reflect.ValueOf(&im.run).Elem()
	for _, n := range numbersOf(run.Type()) {
		if n.name == field {
			return func(v float64) error { return setFigure(run.FieldByIndex(n.index), v) }, true
		}
	}
	return nil, true
}

// targets are the places of a snapshot with the devices of a schema.
type targets struct {
	s       *rt.Snapshot
	element map[string]reflect.Value // by kind and key
	times   rt.CPUTimes
	err     error
}

// newTargets makes the devices that names speak of in s.
func newTargets(s *rt.Snapshot, names []string) *targets {
	t := &targets{s: s, element: map[string]reflect.Value{}}
	for i := range parts {
		p := &parts[i]
		all := p.in(s)
		var keys []string
		seen := map[string]bool{}
		for _, n := range names {
			if key, _, ok := deviceOf(p, n); ok && !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
		all.Set(reflect.MakeSlice(all.Type(), len(keys), len(keys)))
		for k, key := range keys {
			if err := p.named(key, all.Index(k)); err != nil && t.err == nil {
				t.err = err
			}
			t.element[p.kind+"."+key] = all.Index(k)
		}
	}
	return t
}

// deviceOf takes <kind>.<key>.<field> apart. The key may hold dots, the field none.
func deviceOf(p *part, name string) (key, field string, ok bool) {
	rest, ok := strings.CutPrefix(name, p.kind+".")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return "", "", false
	}
	return rest[:dot], rest[dot+1:], true
}

// find returns what sets a figure of the snapshot, nil where it has no such one.
func (t *targets) find(name string) (func(float64) error, error) {
	if t.err != nil {
		return nil, t.err
	}
	for _, f := range fixed(t.s) {
		if field, ok := strings.CutPrefix(name, f.kind+"."); ok {
			if tick, isTimes := strings.CutPrefix(field, "cpu."); isTimes && f.kind == "node" {
				return t.nodeTimes(tick), nil
			}
			return setterOf(f.v, field), nil
		}
	}
	for i := range parts {
		key, field, ok := deviceOf(&parts[i], name)
		if !ok {
			continue
		}
		element := t.element[parts[i].kind+"."+key]
		if times := element.FieldByName("Times"); times.IsValid() {
			element = times
		}
		return setterOf(element, field), nil
	}
	return nil, nil
}

// nodeTimes sets one of the node's tick counters, which come together.
func (t *targets) nodeTimes(field string) func(float64) error {
	set := setterOf(reflect.ValueOf(&t.times).Elem(), field)
	if set == nil {
		return nil
	}
	return func(v float64) error {
		err := set(v)
		t.s.Node.CPU.Set(t.times)
		return err
	}
}

func setterOf(v reflect.Value, field string) func(float64) error {
	for _, n := range numbersOf(v.Type()) {
		if n.name == field {
			f := v.FieldByIndex(n.index)
			return func(v float64) error { return setFigure(f, v) }
		}
	}
	return nil
}
