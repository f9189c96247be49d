package html

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// absent marks a value that was not read.
const absent = math.MinInt64

// line is one line of a plot: scaled whole numbers, one per reading.
type line struct {
	figure string // key of its figure
	name   string
	scale  float64 // of the values
	values []int64
}

// lane is the time in which a step or a task was seen, in seconds since the epoch.
type lane struct {
	Name   string  `json:"name"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	IsTask bool    `json:"task"`
	key    laneKey
}

type laneKey struct {
	step string
	task rt.Opt[uint64]
}

// Series are the readings of one run as lines over time.
type Series struct {
	times []int64 // milliseconds since the epoch
	lines []*line
	lanes []*lane

	readings int // before thinning
	perPoint int // readings in each pair of points; 0: all readings are points
}

// collector converts snapshots to lines.
type collector struct {
	Series
	scope    report.Scope
	interval float64 // configured seconds between readings
	walk     rt.Walk
	share    report.PowerShare
	index    map[[2]string]*line
	laneOf   map[laneKey]*lane
	lastSecs float64 // between the last two readings
}

// Collect reads the snapshots of a run once and retains none. It returns the lines of the
// page's plots, in the scope of the run's summary. A value that was not read stays absent.
func Collect(sum *report.Summary, snapshots iter.Seq2[*rt.Snapshot, error]) (*Series, error) {
	run := &sum.Run
	c := collector{scope: sum.Scope, interval: run.Interval, index: map[[2]string]*line{}, laneOf: map[laneKey]*lane{}}
	c.share.Of = sum.JobEnergy
	for s, err := range snapshots {
		if err != nil {
			return nil, fmt.Errorf("read the snapshots of job %s on %s for its plots: %w", run.Label(), run.Node, err)
		}
		c.add(s)
	}
	for _, l := range c.lines {
		l.pad(len(c.times))
	}
	return &c.Series, nil
}

func (c *collector) add(s *rt.Snapshot) {
	prev := c.walk.Step(s)
	at := s.Wall / 1e6
	secs := 0.0
	if prev != nil {
		secs = float64(s.Boot-prev.Boot) / 1e9
		c.gap(prev.Wall/1e6, secs)
	}
	if n := len(c.times); n > 0 && at <= c.times[n-1] {
		at = c.times[n-1] + 1 // the plots need ascending times
	}
	c.times = append(c.times, at)
	c.readings++
	c.cpu(prev, s, secs)
	c.memory(prev, s)
	c.io(prev, s, secs)
	c.gpus(s)
	c.pressure(prev, s, secs)
	c.power(prev, s, secs)
	c.processes(s)
	c.steps(s)
}

// gap adds a point without values after a reading if the next one is much later than
// expected, so that no line connects the two.
func (c *collector) gap(after int64, secs float64) {
	const few, shortest = 3, 5
	isLate := secs > few*max(c.interval, c.lastSecs) && secs > shortest
	c.lastSecs = secs
	if isLate {
		c.times = append(c.times, max(after, c.times[len(c.times)-1])+1)
	}
}

// put sets the value of a line at the last reading. The line begins with its first value.
func (c *collector) put(figure, name string, scale float64, value rt.Opt[float64]) {
	v, ok := value.Get()
	isNumber := !math.IsNaN(v) && math.Abs(v/scale) < 1<<53
	if !ok || !isNumber {
		return
	}
	l := c.index[[2]string{figure, name}]
	if l == nil {
		l = &line{figure: figure, name: name, scale: scale}
		c.index[[2]string{figure, name}] = l
		c.lines = append(c.lines, l)
	}
	l.pad(len(c.times) - 1)
	if len(l.values) < len(c.times) { // the first of two devices with one name is used
		l.values = append(l.values, int64(math.Round(v/scale)))
	}
}

// pad adds absent values up to n.
func (l *line) pad(n int) {
	for len(l.values) < n {
		l.values = append(l.values, absent)
	}
}

// steps extends the lanes of the steps and tasks that a reading has.
func (c *collector) steps(s *rt.Snapshot) {
	for i := range s.Steps {
		r := &s.Steps[i]
		key := laneKey{r.Step, r.Task}
		at := float64(s.Wall) / 1e9
		l := c.laneOf[key]
		if l == nil {
			l = &lane{Name: printable.Text(r.Step), From: at, key: key}
			if task, isTask := r.Task.Get(); isTask {
				l.Name, l.IsTask = fmt.Sprintf("%s, task %d", l.Name, task), true
			}
			c.laneOf[key] = l
			c.lanes = append(c.lanes, l)
		}
		l.To = at
	}
}

// ReadRun returns a run with the text of its report and, unless path is empty, the plots of its spool file. If the file
// is damaged, they end before the damage, which is in the summary.
func ReadRun(ctx context.Context, path string, s *report.Summary, zone *time.Location) (run PageRun, err error) {
	var text bytes.Buffer
	if err := report.WriteDetails(&text, s, report.TextOptions{Verbose: true, Zone: zone}); err != nil {
		return run, err
	}
	run = PageRun{Summary: s, Text: text.String()}
	if path == "" {
		return run, nil
	}
	r, err := spool.Open(path)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	run.Series, err = Collect(s, spool.Undamaged(r.Snapshots(ctx, 1, 0), func(error) {}))
	return run, err
}
