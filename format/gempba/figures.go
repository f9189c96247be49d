package gempba

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// ErrLine means that a line of GemPBA that is stored with a run cannot be parsed.
var ErrLine = errors.New("a stored line of GemPBA")

// source is the source of the records of lines.
const source = "gempba"

// Kept makes records of the lines of a program. The zero value has made none.
type Kept struct{ topology []byte } // of the newest record with one

// Record returns the record of a line that came at the time at, in nanoseconds since the epoch. It leaves out a
// topology that has not changed.
func (k *Kept) Record(e Envelope, at int64) (rt.ForeignReport, error) {
	if e.Topology != nil {
		topology, err := json.Marshal(e.Topology)
		if err != nil {
			return rt.ForeignReport{}, err
		}
		if bytes.Equal(topology, k.topology) {
			e.Topology = nil
		} else {
			k.topology = topology
		}
	}
	line, err := AppendLine(nil, &e)
	return rt.ForeignReport{Time: at, Source: source, Body: bytes.TrimSuffix(line, []byte("\n"))}, err
}

// storedLines visits the stored lines of the GemPBA program, each with the time when it came.
func storedLines(ctx context.Context, r *spool.Reader, visit func(at int64, e *Envelope) error) error {
	for rec, err := range r.Records(ctx, source) {
		if err != nil {
			return err
		}
		e, err := Parse(rec.Body)
		if err != nil {
			return fmt.Errorf("%s: %w: %w", r.Path(), ErrLine, err)
		}
		if err := visit(rec.Time, e); err != nil {
			return err
		}
	}
	return nil
}

// Figures summarizes the stored lines of the program of the job, nil if there are none.
func Figures(ctx context.Context, r *spool.Reader) (*report.GemPBA, error) {
	t := tally{workers: map[uint32]*workerTally{}, edges: map[[2]uint32]*edgeTally{}}
	err := storedLines(ctx, r, func(_ int64, e *Envelope) error {
		t.addLine(e)
		return nil
	})
	if err != nil || t.lines == 0 {
		return nil, err
	}
	return t.figures(), nil
}

// tally adds up the figures of a program.
type tally struct {
	lines, hosts     int
	running, pending rt.Opt[uint64] // highest
	workers          map[uint32]*workerTally
	edges            map[[2]uint32]*edgeTally
}

// workerTally adds up the figures of one worker.
type workerTally struct {
	host              string
	local, sent, recv restarted
	idle              restarted
	idleMicros        uint64 // between lines that both have the value
	overMillis        int64
	at                int64
}

type edgeTally struct{ bytes, count restarted }

// restarted sums a counter that starts from zero again with its worker.
type restarted struct {
	ended uint64 // sum of the values before each restart
	rt.Opt[uint64]
}

func (c *restarted) addValue(v rt.Opt[uint64]) {
	now, ok := v.Get()
	if !ok {
		return
	}
	if before := c.Or(0); now < before {
		c.ended += before
	}
	c.Set(now)
}

func (c *restarted) sum() rt.Opt[uint64] {
	return rt.Map(c.Opt, func(now uint64) uint64 { return c.ended + now })
}

func (t *tally) addLine(e *Envelope) {
	t.lines++
	t.hosts = max(t.hosts, len(e.Nodes))
	totals := e.Totals()
	t.running, t.pending = larger(t.running, totals.TasksRunning), larger(t.pending, totals.PendingCount)
	for i := range e.Workers {
		f := &e.Workers[i]
		w := t.workers[f.WorkerID]
		if w == nil {
			w = &workerTally{}
			t.workers[f.WorkerID] = w
		}
		w.addFrame(f, e.TS)
		for _, edge := range f.EdgesOut {
			key := [2]uint32{f.WorkerID, edge.To}
			if t.edges[key] == nil {
				t.edges[key] = &edgeTally{}
			}
			t.edges[key].bytes.addValue(rt.Some(edge.Bytes))
			t.edges[key].count.addValue(rt.Some(edge.Count))
		}
	}
	if e.Topology == nil {
		return
	}
	for _, i := range e.Topology.Identities {
		if w := t.workers[i.WorkerID]; w != nil {
			w.host = i.Hostname
		}
	}
}

func (w *workerTally) addFrame(f *WorkerFrame, ts int64) {
	w.local.addValue(f.TasksLocalTotal)
	w.sent.addValue(f.TasksSentTotal)
	w.recv.addValue(f.TasksRecvTotal)
	at := f.WorkerLocalMS.Or(ts)
	before, had := w.idle.Get()
	w.idle.addValue(f.IdleMicros)
	if now, ok := f.IdleMicros.Get(); ok && had && now >= before && at > w.at {
		w.idleMicros += now - before
		w.overMillis += at - w.at
	}
	w.at = at
}

func (w *workerTally) idlePct() (pct rt.Opt[float64]) {
	if w.overMillis > 0 {
		pct.Set(min(100, float64(w.idleMicros)/float64(w.overMillis)/10))
	}
	return pct
}

func larger(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if b.Valid() && b.Or(0) >= a.Or(0) {
		return b
	}
	return a
}

func (t *tally) figures() *report.GemPBA {
	g := &report.GemPBA{Lines: t.lines, Hosts: t.hosts, MaxRunning: t.running, MaxPending: t.pending, Workers: []report.GemPBAWorker{}, Edges: []report.GemPBAEdge{}}
	idle, over := uint64(0), int64(0)
	for _, id := range slices.Sorted(maps.Keys(t.workers)) {
		w := t.workers[id]
		idle, over = idle+w.idleMicros, over+w.overMillis
		of := report.GemPBAWorker{ID: id, Host: w.host, TasksLocal: w.local.sum(), TasksSent: w.sent.sum(), TasksRecv: w.recv.sum(), IdlePct: w.idlePct()}
		g.TasksLocal, g.TasksSent, g.TasksRecv = withOther(g.TasksLocal, of.TasksLocal), withOther(g.TasksSent, of.TasksSent), withOther(g.TasksRecv, of.TasksRecv)
		g.Workers = append(g.Workers, of)
	}
	g.IdlePct = (&workerTally{idleMicros: idle, overMillis: over}).idlePct()
	edges := make([]TotalEdge, 0, len(t.edges))
	for key, e := range t.edges {
		edge := TotalEdge{From: key[0], To: key[1], Bytes: e.bytes.sum().Or(0), Count: e.count.sum().Or(0)}
		g.SentBytes += edge.Bytes
		g.SentCount += edge.Count
		edges = append(edges, edge)
	}
	for _, e := range Heaviest(edges) {
		g.Edges = append(g.Edges, report.GemPBAEdge(e))
	}
	return g
}

// withOther returns the sum of the present values.
func withOther(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if v, ok := b.Get(); ok {
		return rt.Some(a.Or(0) + v)
	}
	return a
}

// Samples has the totals of the stored lines, in the order of their time.
type Samples struct {
	times  []int64 // nanoseconds since the epoch
	totals []Totals
}

// ReadSamples reads the totals of all stored lines of a run.
func ReadSamples(ctx context.Context, r *spool.Reader) (out Samples, err error) {
	err = storedLines(ctx, r, func(at int64, e *Envelope) error {
		out.times, out.totals = append(out.times, at), append(out.totals, e.Totals())
		return nil
	})
	return out, err
}

// Until returns the totals of the newest line up to wall, in nanoseconds since the epoch, as JSON;
// nil if there is no new one.
func (g *Samples) Until(wall int64) ([]byte, error) {
	n := 0
	for n < len(g.times) && g.times[n] <= wall {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	b, err := json.Marshal(g.totals[n-1])
	g.times, g.totals = g.times[n:], g.totals[n:]
	return b, err
}
