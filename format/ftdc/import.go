package ftdc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// ErrDamaged marks an import that made a run of the readings before the damage.
var ErrDamaged = errors.New("the file is damaged")

// errNoRun reports FTDC that is no export of a run.
var errNoRun = errors.New("this is no run that rt exported: a metric of every reading is missing; rt-spool ftdc shows the metrics")

// Import makes a run in the spool at dir of a file that Export wrote, and returns its path. name is the name of the
// file for the ledger. From a file that is cut or damaged it imports the readings before that place. The error is
// then ErrDamaged next to the path.
func Import(dir string, limits *spool.ImportLimits, name string, r io.Reader) ([]string, error) {
	im := newImport(r)
	w, err := im.begin(dir, limits)
	if err != nil {
		return nil, err
	}
	for err == nil {
		if err := w.Put(&im.s); err != nil {
			return nil, errors.Join(err, w.Discard())
		}
		err = im.next()
	}
	var damage error
	switch {
	case err == io.EOF:
	case im.failed:
		return nil, errors.Join(err, w.Discard())
	default:
		damage = fmt.Errorf("%w: %w; the run has the %d readings before that place", ErrDamaged, err, im.s.Seq)
	}
	for _, e := range im.events {
		w.Event(*e)
	}
	if damage != nil {
		w.Event(rt.Event{Time: im.run.End, Kind: "gap", Name: "import", Status: "damaged", Detail: "the FTDC file that it was imported from is damaged: " + err.Error()})
	}
	w.Event(rt.Event{Time: im.run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the FTDC file " + name})
	if err := w.End(im.run); err != nil {
		return nil, errors.Join(err, w.Discard())
	}
	return []string{w.Path()}, damage
}

// importer reads the snapshots of a file one by one.
type importer struct {
	dec     *Decoder
	failed  bool // the file cannot be read, which is no damage of its content
	schemas int
	setters []setter
	targets *targets
	texts   map[string]map[string]string // of devices, by their prefix and the name of the text
	s       rt.Snapshot
	run     rt.Run
	host    rt.Host
	events  []*rt.Event
	first   int64    // time of the first datum
	last    int64    // time of the newest datum
	at      struct { // nanoseconds
		boot, clock int64
		nodeRead    rt.Opt[int64]
	}
}

func newImport(r io.Reader) *importer {
	im := &importer{dec: NewDecoder(r), texts: map[string]map[string]string{}}
	im.dec.AnyTime = true // as in Export
	return im
}

// setter stores the value of one metric.
type setter struct {
	name        string
	value, rest int // indices in the datum; rest is -1 if there is none
	set         func(v float64) error
}

// begin reads the first snapshot and creates the run.
func (im *importer) begin(dir string, limits *spool.ImportLimits) (*spool.Writer, error) {
	err := im.next()
	if err == io.EOF {
		return nil, fmt.Errorf("it has no readings: %w", errNoRun)
	}
	if err != nil {
		return nil, err
	}
	im.run.State = rt.StateRunning
	if im.run.Start.IsZero() {
		im.run.Start = time.Unix(0, im.first).UTC()
	}
	if im.host == (rt.Host{}) {
		im.host.HostName = im.run.Node
	}
	return limits.Create(dir, im.run, im.host, spool.Options{CommitRows: 128, CommitInterval: time.Hour})
}

// next reads the next datum into the snapshot.
func (im *importer) next() error {
	at, err := im.dec.Next()
	if err != nil {
		_, isDamage := errors.AsType[*SyntaxError](err)
		im.failed = err != io.EOF && !isDamage
		return err
	}
	if im.s.Seq == 0 {
		im.first = at
	} else if at < im.last {
		return fmt.Errorf("the reading before byte %d: %w", im.dec.Offset(), ErrTime)
	}
	im.last = at
	if im.dec.Schemas() != im.schemas {
		im.schemas = im.dec.Schemas()
		if err := im.plan(im.dec.Names()); err != nil {
			return err
		}
	}
	values := im.dec.Values()
	im.at.nodeRead.Clear()
	for _, s := range im.setters {
		v := float64(values[s.value])
		if s.rest >= 0 && !math.IsInf(v, 0) {
			v = join(values[s.value], values[s.rest])
		}
		if err := s.set(v); err != nil {
			return fmt.Errorf("the reading before byte %d: metric %q: %w", im.dec.Offset(), s.name, err)
		}
	}
	im.targets.processes(&im.s)
	im.s.Seq++
	im.s.Boot = im.at.boot + at - im.first
	im.s.Wall = at + im.at.clock
	im.s.Node.ReadBoot = 0
	if before, ok := im.at.nodeRead.Get(); ok {
		im.s.Node.ReadBoot = im.s.Boot - before
	}
	return nil
}

// seconds converts seconds to nanoseconds, rounded to the microseconds that the spool stores.
func seconds(s float64) int64 { return int64(math.Round(s*1e6)) * 1000 }

// plan finds the target of each metric of a schema. Unknown metrics are from a newer version.
func (im *importer) plan(names []string) error {
	im.s = rt.Snapshot{Seq: im.s.Seq}
	index := make(map[string]int, len(names))
	for i, n := range names {
		index[n] = i
	}
	im.takeTexts(names)
	var err error
	im.targets, err = newTargets(&im.s, names, im.texts)
	if err != nil {
		return fmt.Errorf("the schema before byte %d: %w", im.dec.Offset(), err)
	}
	im.addTargets()
	im.setters = im.setters[:0]
	for i, n := range names {
		base, isRest := strings.CutSuffix(n, RestSuffix)
		if _, pair := index[base]; isRest && pair {
			continue
		}
		s := setter{name: n, value: i, rest: -1, set: im.targets.set[n]}
		if rest, ok := index[n+RestSuffix]; ok {
			s.rest = rest
		}
		if event, ok := ledgerEvent(n); ok && im.schemas <= 1 {
			im.events = append(im.events, &event)
			s.set = im.timeInto(&event.Time)
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

// addTargets adds the targets of the reading itself, and in the first schema of the run and host.
func (im *importer) addTargets() {
	const most = 1e9 // seconds: 30 years
	set := im.targets.set
	set["snapshot.boot_secs"] = bounded(most, func(v float64) { im.at.boot = seconds(v) })
	set["snapshot.clock_secs"] = bounded(most, func(v float64) { im.at.clock = seconds(v) })
	set["snapshot.node_read_secs"] = bounded(most, func(v float64) { im.at.nodeRead.Set(seconds(v)) })
	setReason := bounded(float64(rt.ReasonStop), func(v float64) { im.s.Reason = rt.Reason(v) })
	set["snapshot.reason"] = func(v float64) error {
		if v < 0 || v != math.Trunc(v) {
			return fmt.Errorf("%v is not the reason of a reading", v)
		}
		return setReason(v)
	}
	if im.schemas > 1 {
		return
	}
	im.targets.addFigures("run", runOf(&im.run).figures)
	im.targets.addFigures("host", hostOf(&im.host).figures)
	for _, t := range runTimes(&im.run) {
		set["run."+t.name] = im.timeInto(t.at)
	}
}

// bounded returns a function that refuses values of more than most.
func bounded(most float64, set func(float64)) func(float64) error {
	return func(v float64) error {
		if !(math.Abs(v) <= most) {
			return fmt.Errorf("%v is out of range", v)
		}
		set(v)
		return nil
	}
}

// takeTexts takes the texts of devices from each schema, and the texts of the run and host from the first.
func (im *importer) takeTexts(names []string) {
	for _, n := range names {
		for i := range parts {
			p := &parts[i]
			key, field, text, ok := p.cutText(n)
			if !ok {
				continue
			}
			of := im.texts[p.kind+"."+key]
			if of == nil {
				of = map[string]string{}
				im.texts[p.kind+"."+key] = of
			}
			of[field] = text
		}
		if im.schemas > 1 {
			continue
		}
		kind, word, _ := strings.Cut(n, infoSuffix)
		field, text, _ := strings.Cut(word, "=")
		switch kind {
		case "run":
			setRunText(&im.run, field, text)
		case "host":
			setText(hostOf(&im.host).texts, field, text)
		}
	}
}

// timeInto stores a time that is given in seconds after the first datum.
func (im *importer) timeInto(at *time.Time) func(float64) error {
	return bounded(1e10, func(v float64) { *at = time.Unix(0, im.first+seconds(v)).UTC() })
}
