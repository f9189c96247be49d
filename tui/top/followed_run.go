package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/spool"
)

// A sparkline shows at most window readings. A run in the list keeps its last listWindow readings.
const (
	window     = 240
	listWindow = 60
)

// followedRun holds the readings of a run. readNew opens the file of the run only if it has changed. The file
// is closed after each read.
type followedRun struct {
	path   string
	copied bool // from another machine
	whole  bool // has all readings, and the steps that have ended; otherwise only the last readings
	seen   fingerprint
	err    error // of the last attempt to read the file
	looked bool  // readNew was called since the last change of the directory

	run    rt.Run
	live   bool
	before rt.Snapshot // the last reading, without lists
	last   Figures     // of the last reading
	cpus   rt.Opt[uint64]
	peak   rt.Opt[uint64] // highest memory so far, bytes
	// kernelPeak is true if a reading had the kernel's peak, which covers all readings before it.
	kernelPeak bool
	first      rt.Opt[int64] // Snapshot.Boot of the first reading; it can be 0 in an imported run
	points     []point       // ascending
	ended      []endedStep
	mine       cpuSet       // the CPUs that the job may use, from the ledger
	program    *Program     // the job's program at cur
	prev       *rt.Snapshot // the reading before cur
	cur        *rt.Snapshot // the reading that was shown last
}

// point has the figures of one reading, for the sparklines and the timeline.
type point struct {
	seq, boot, wall            int64
	cores, memory, read, write rt.Opt[float64]
}

// endedStep is a step or task, with its last figures.
type endedStep struct {
	boot int64 // of its last reading
	rt.StepReading
}

// fingerprint identifies a state of a file.
type fingerprint struct {
	size, logSize int64
	time, logTime time.Time
	live          bool
}

func (t *followedRun) fingerprint() (f fingerprint, err error) {
	st, err := os.Lstat(t.path)
	if err != nil {
		return f, fmt.Errorf("look at the spool file: %w", err)
	}
	f.size, f.time = st.Size(), st.ModTime()
	if st, err := os.Lstat(t.path + "-wal"); err == nil {
		f.logSize, f.logTime = st.Size(), st.ModTime()
	}
	f.live, err = spool.Live(t.path)
	return f, err
}

// settled reports whether the file is complete.
func (t *followedRun) settled() bool {
	return t.run.State != rt.StateRunning && t.run.State != ""
}

// readNew reads the new part of the file.
func (t *followedRun) readNew(ctx context.Context) error {
	t.looked = true
	f, err := t.fingerprint()
	switch {
	case err != nil:
		return err
	case f != t.seen:
		t.err = t.readFile(ctx, f.live)
	}
	if ctx.Err() == nil {
		t.seen = f
	}
	return t.err
}

func (t *followedRun) readFile(ctx context.Context, live bool) (err error) {
	r, err := spool.Open(t.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t.run, t.live = r.Run(), live
	if t.whole {
		events, err := r.Events()
		if err != nil {
			return err
		}
		t.mine = cpusOfJob(events)
	}
	return t.read(ctx, r)
}

func (t *followedRun) read(ctx context.Context, r *spool.Reader) error {
	from := int64(1)
	switch n := len(t.points); {
	case n > 0:
		from = t.points[n-1].seq + 1
	case !t.whole:
		newest, err := r.LastSeq()
		if err != nil {
			return err
		}
		from = max(1, newest-listWindow)
		for cur, err := range r.Scalars(ctx, 1, 1) {
			if err != nil {
				return err
			}
			t.first.Set(cur.Boot)
		}
	}
	if err := t.addFrom(ctx, r, from); err != nil {
		return err
	}
	if t.settled() && !t.kernelPeak && !t.whole && from > 1 { // the peak needs all readings
		t.points, t.before = nil, rt.Snapshot{}
		if err := t.addFrom(ctx, r, 1); err != nil {
			return err
		}
	}
	if n := len(t.points) - listWindow; n > 0 && !t.whole {
		t.points = slices.Delete(t.points, 0, n)
	}
	return nil
}

// addFrom adds the readings from a number on.
func (t *followedRun) addFrom(ctx context.Context, r *spool.Reader, from int64) error {
	snapshots := r.Scalars(ctx, from, 0)
	if t.whole {
		snapshots = r.Snapshots(ctx, from, 0)
	}
	for cur, err := range snapshots {
		if err != nil {
			return err
		}
		t.addReading(cur)
	}
	return nil
}

func (t *followedRun) addReading(cur *rt.Snapshot) {
	if !t.first.Valid() {
		t.first.Set(cur.Boot)
	}
	for i := range cur.Steps {
		if cur.Steps[i].Ended {
			t.ended = append(t.ended, endedStep{cur.Boot, cur.Steps[i]})
		}
	}
	scalars := rt.Snapshot{Seq: cur.Seq, Wall: cur.Wall, Boot: cur.Boot, Reason: cur.Reason, Node: cur.Node, Job: cur.Job, GPU: cur.GPU, Tree: cur.Tree}
	var prev *rt.Snapshot // the previous reading, without lists; nil for the first one
	if t.before.Seq != 0 {
		prev = &t.before
	}
	t.last = figures(prev, cur)
	t.before = scalars
	t.kernelPeak = t.kernelPeak || t.last.Peak.Valid()
	highest := cmp.Or(t.last.Peak, t.last.Memory)
	if !t.last.IsAtMost && highest.Or(0) >= t.peak.Or(0) {
		t.peak = cmp.Or(highest, t.peak)
	}
	t.last.Peak = t.peak
	t.last.setMean(t.since(cur.Boot))
	t.cpus = cur.Node.CPUs
	t.points = append(t.points, point{
		seq: cur.Seq, boot: cur.Boot, wall: cur.Wall, cores: t.last.Cores, memory: rt.Scaled(t.last.Memory, 1),
		read: t.last.ReadRate, write: t.last.WriteRate,
	})
}

// since returns the time from the first reading to a reading with this Snapshot.Boot.
func (t *followedRun) since(boot int64) time.Duration { return time.Duration(boot - t.first.Or(boot)) }

// series returns the values of the last points, at most window of them.
func series(points []point, of func(*point) rt.Opt[float64]) []rt.Opt[float64] {
	points = points[max(0, len(points)-window):]
	out := make([]rt.Opt[float64], len(points))
	for i := range points {
		out[i] = of(&points[i])
	}
	return out
}

func coresOf(p *point) rt.Opt[float64]  { return p.cores }
func memoryOf(p *point) rt.Opt[float64] { return p.memory }
func readOf(p *point) rt.Opt[float64]   { return p.read }
func writeOf(p *point) rt.Opt[float64]  { return p.write }

// job returns the run for the list.
func (t *followedRun) job(now time.Time) Watched {
	run := t.run
	j := Watched{Run: &run, Path: t.path, Live: t.live, Figures: t.last, cores: series(t.points, coresOf), memory: series(t.points, memoryOf)}
	j.partial = t.copied && run.State == rt.StateRunning
	run.AllocCPUs = cmp.Or(run.AllocCPUs, t.cpus)
	j.ElapsedSec = j.elapsed(now).Seconds()
	return j
}

// detail returns the state of the run at an offset from its first reading; the parameter at is the
// offset. If at is negative, detail returns the state at the default reading, see newest.
func (t *followedRun) detail(ctx context.Context, at time.Duration, now time.Time) (*Detail, error) {
	d := &Detail{Job: t.job(now), Count: len(t.points), mine: t.mine}
	n := len(t.points)
	if n == 0 {
		return d, nil
	}
	d.First = time.Unix(0, t.points[0].wall)
	d.Last = t.since(t.points[n-1].boot)
	i := t.newest()
	d.At = t.since(t.points[i].boot)
	if at >= 0 {
		d.At = min(at, d.Last)
		i = max(sort.Search(n, func(k int) bool { return t.since(t.points[k].boot) > d.At })-1, 0)
	}
	d.Index, d.Taken = i+1, t.since(t.points[i].boot)
	if err := t.load(ctx, i); err != nil {
		return nil, err
	}
	d.Prev, d.Cur, d.Program = t.prev, t.cur, t.program
	shown := t.points[:i+1]
	elapsed := d.Job.ElapsedSec
	d.Job.Figures = figures(d.Prev, d.Cur)
	d.Job.setMean(d.Taken)
	d.Job.ElapsedSec = elapsed
	isOver := !d.Job.Live && d.At < d.Last
	isPast := i < n-1 || isOver
	if at >= 0 && isPast {
		d.Job.ElapsedSec = d.At.Seconds()
	}
	d.Job.cores, d.Job.memory = series(shown, coresOf), series(shown, memoryOf)
	d.read, d.write = series(shown, readOf), series(shown, writeOf)
	d.Steps = t.steps(d.before())
	return d, nil
}

// newest returns the index of the default reading. For a command that has ended it is the
// last reading with processes.
func (t *followedRun) newest() int {
	i := len(t.points) - 1
	if t.run.JobID.Valid() || !t.settled() {
		return i
	}
	for i > 0 && t.points[i].memory == rt.Some(0.0) {
		i--
	}
	return i
}

// load reads the reading of point i and the one before it.
func (t *followedRun) load(ctx context.Context, i int) (err error) {
	seq := t.points[i].seq
	if t.cur != nil && t.cur.Seq == seq {
		return nil
	}
	r, err := spool.Open(t.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t.program = frames(r, t.points[i].wall)
	t.prev, t.cur = nil, nil
	for cur, err := range r.Snapshots(ctx, t.points[max(i-1, 0)].seq, seq) {
		if err != nil {
			return err
		}
		t.prev, t.cur = t.cur, new(rt.Snapshot)
		t.cur.CopyFrom(cur)
	}
	if t.cur == nil {
		t.points = nil // readings were thinned since they were listed
		return fmt.Errorf("%s: reading %d has been thinned since it was listed: look again", t.path, seq)
	}
	return nil
}

// kept is the number of lines of the program's broadcast that are read to show the program at a
// given time. A rate is computed from two different frames of a worker. Four lines contain two
// different frames even if only every second line has a new frame of the worker.
const kept = 4

// frames returns the last state that the job's program broadcast before or at the time wall. It
// returns nil if no line was recorded or can be read. The readings are then shown without the
// program.
func frames(r *spool.Reader, wall int64) *Program {
	list, err := r.RecordsBefore("gempba", wall, kept)
	if err != nil {
		return nil
	}
	var p *Program
	for _, rec := range slices.Backward(list) {
		e, err := gempba.Parse(rec.Body)
		if err != nil {
			continue
		}
		if p == nil {
			p = newProgram()
		}
		p.addLine(e)
	}
	return p
}

// steps returns the steps of the shown reading and those that ended before it.
func (t *followedRun) steps(prev *rt.Snapshot) []step {
	var out []step
	for i := range t.ended {
		if e := &t.ended[i]; e.boot < t.cur.Boot {
			out = append(out, step{e.StepReading, &rt.StepReading{}})
		}
	}
	for _, s := range t.cur.Steps {
		out = append(out, step{s, find(prev.Steps, func(p *rt.StepReading) bool { return p.Step == s.Step && p.Task == s.Task })})
	}
	return out
}
