package ftdc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/spool"
)

// ErrDamaged marks an import that made a run of the readings before the damage.
var ErrDamaged = errors.New("the file is damaged")

// errNoRun reports FTDC that is no export of a run.
var errNoRun = errors.New("this is no run that rt exported: a metric of every reading is missing; rt-spool ftdc shows the metrics")

// Import makes a run in the spool at dir of a file that Export wrote, and returns its path. name
// is the name of the file for the ledger. Of a file that is cut or damaged it imports the
// readings before that place, and returns an error that is ErrDamaged next to the path.
func Import(dir, name string, r io.Reader) ([]string, error) {
	im := newImport(r)
	w, err := im.begin(dir)
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
	case im.source.failed():
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

// watched distinguishes a failed read from damaged content.
type watched struct {
	io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

func (w *watched) failed() bool { return w.err != nil }

// importer reads the snapshots of a file one by one.
type importer struct {
	source  *watched
	dec     *ftdc.Decoder
	schemas int
	setters []setter
	targets *targets
	texts   map[string]map[string]string // of devices, by their prefix and the name of the text
	s       rt.Snapshot
	run     rt.Run
	host    rt.Host
	events  []*rt.Event
	first   int64 // time of the first datum
	last    int64 // time of the newest datum
	at      struct{ reason, boot, clock, nodeRead, nodeReadKnown float64 }
}

func newImport(r io.Reader) *importer {
	source := &watched{Reader: r}
	im := &importer{source: source, dec: ftdc.NewDecoder(source), texts: map[string]map[string]string{}}
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
func (im *importer) begin(dir string) (*spool.Writer, error) {
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
	w, err := spool.Create(dir, im.run, im.host, spool.Options{CommitRows: 128, CommitInterval: time.Hour})
	if errors.Is(err, spool.ErrExists) {
		return nil, fmt.Errorf("%w, as %s.db, which stays as it is: rt-spool --spool DIR import imports it into another spool", spool.ErrExists, filepath.Join(dir, im.run.FileStem()))
	}
	return w, err
}

// next reads the next datum into the snapshot.
func (im *importer) next() error {
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
	im.targets.processes(&im.s)
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

// seconds converts seconds to nanoseconds, rounded to the microseconds that the spool stores.
func seconds(s float64) int64 { return int64(math.Round(s*1e6)) * 1000 }

// plan finds the field of each metric of a schema in a new snapshot. It ignores unknown
// metrics: they are from a newer version.
func (im *importer) plan(names []string) error {
	im.s = rt.Snapshot{Seq: im.s.Seq}
	index := make(map[string]int, len(names))
	for i, n := range names {
		index[n] = i
	}
	im.takeTexts(names)
	im.targets = newTargets(&im.s, names, im.texts)
	im.setters = im.setters[:0]
	for i, n := range names {
		base, isRest := strings.CutSuffix(n, RestSuffix)
		if _, pair := index[base]; isRest && pair {
			continue
		}
		s := setter{name: n, value: i, rest: -1}
		if rest, ok := index[n+RestSuffix]; ok {
			s.rest = rest
		}
		var err error
		s.set, err = im.target(n)
		if err != nil {
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

// target returns the function that stores a metric, nil if no field is known for it.
func (im *importer) target(name string) (func(float64) error, error) {
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
				return fmt.Errorf("%v is not the reason of a reading", v)
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
	return im.targets.find(name)
}

// takeTexts takes the texts of a schema: those of the run and its host from the first schema,
// those of devices from each.
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
		if word, ok := strings.CutPrefix(n, "run"+infoSuffix); ok {
			field, text, _ := strings.Cut(word, "=")
			setRunText(&im.run, field, text)
		}
		if word, ok := strings.CutPrefix(n, "host"+infoSuffix); ok {
			field, text, _ := strings.Cut(word, "=")
			setText(hostOf(&im.host).texts, field, text)
		}
	}
}

// runTarget is target for the metrics of the run, its host and its ledger. They are read from
// the first schema only; ok reports that the metric is one of them.
func (im *importer) runTarget(name string) (set func(float64) error, ok bool) {
	if event, ok := ledgerEvent(name); ok {
		if im.schemas > 1 {
			return nil, true
		}
		im.events = append(im.events, &event)
		return im.timeInto(&event.Time), true
	}
	of, figure, _ := strings.Cut(name, ".")
	var figures []field
	switch of {
	case "run":
		figures = runOf(&im.run).figures
	case "host":
		figures = hostOf(&im.host).figures
	default:
		return nil, strings.HasSuffix(of, strings.TrimSuffix(infoSuffix, "."))
	}
	if im.schemas > 1 {
		return nil, true
	}
	for _, t := range runTimes(&im.run) {
		if of == "run" && t.name == figure {
			return im.timeInto(t.at), true
		}
	}
	return setterOf(figures, figure), true
}

// timeInto stores a time that is given in seconds after the first datum.
func (im *importer) timeInto(at *time.Time) func(float64) error {
	return func(v float64) error {
		if !(math.Abs(v) <= 1e10) {
			return fmt.Errorf("%v is out of range", v)
		}
		*at = time.Unix(0, im.first+seconds(v)).UTC()
		return nil
	}
}
