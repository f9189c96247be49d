package top

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/spool"
)

// How many readings a sparkline shows at most, and how many of the newest are kept of
// a run in the list.
const (
	window     = 240
	listWindow = 60
)

// tape is what was read of a run's file so far. The file is opened only when
// something about it has changed, and closed again at once, as drain does.
type tape struct {
	path   string
	whole  bool // from the first reading on, with the steps that have ended
	seen   fingerprint
	err    error // of what was seen
	looked bool  // since the directory has changed

	run     rt.Run
	live    bool
	before  rt.Snapshot // the newest reading, without lists
	last    Figures     // of the newest reading
	cpus    rt.Opt[uint64]
	first   int64   // boot time of the first reading
	points  []point // ascending
	ended   []endedStep
	mine    cpuSet       // the CPUs that the job may use, where the ledger tells
	program *Program     // of its own frames, at the reading that was shown last
	prev    *rt.Snapshot // the interval that was shown last
	cur     *rt.Snapshot
}

// point is one reading as sparklines and the line of time need it. NaN is not read.
type point struct {
	seq, boot, wall            int64
	cores, memory, read, write float32
}

// endedStep is a step or task, with its last figures.
type endedStep struct {
	boot int64 // of the reading that had them
	rt.StepReading
}

// fingerprint tells that a file may have changed.
type fingerprint struct {
	size, logSize int64
	time, logTime time.Time
	live          bool
}

func (t *tape) fingerprint() (f fingerprint, err error) {
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

// settled says that nothing more will come.
func (t *tape) settled() bool {
	return t.run.State != rt.StateRunning && t.run.State != ""
}

// grow reads what is new in the file.
func (t *tape) grow(ctx context.Context) error {
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

func (t *tape) readFile(ctx context.Context, live bool) (err error) {
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

func (t *tape) read(ctx context.Context, r *spool.Reader) error {
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
		if err := t.readFirst(ctx, r); err != nil {
			return err
		}
	}
	snapshots := r.Scalars(ctx, from, 0)
	if t.whole {
		snapshots = r.Snapshots(ctx, from, 0)
	}
	for cur, err := range snapshots {
		if err != nil {
			return err
		}
		t.add(cur)
	}
	if n := len(t.points) - listWindow; n > 0 && !t.whole {
		t.points = slices.Delete(t.points, 0, n)
	}
	return nil
}

// readFirst learns when the tracking began.
func (t *tape) readFirst(ctx context.Context, r *spool.Reader) error {
	for cur, err := range r.Scalars(ctx, 1, 1) {
		if err != nil {
			return err
		}
		t.first = cur.Boot
	}
	return nil
}

func (t *tape) add(cur *rt.Snapshot) {
	if t.first == 0 {
		t.first = cur.Boot
	}
	for i := range cur.Steps {
		if cur.Steps[i].Ended {
			t.ended = append(t.ended, endedStep{cur.Boot, cur.Steps[i]})
		}
	}
	scalars := rt.Snapshot{Seq: cur.Seq, Wall: cur.Wall, Boot: cur.Boot, Reason: cur.Reason, Node: cur.Node, Job: cur.Job, GPU: cur.GPU, Tree: cur.Tree}
	var prev *rt.Snapshot // as it was read: a difference over a gap is no rate of the interval
	if t.before.Seq != 0 {
		prev = &t.before
	}
	t.last = figures(prev, cur)
	t.before = scalars
	t.last.setMean(time.Duration(cur.Boot - t.first))
	t.cpus = cur.Node.CPUs
	t.points = append(t.points, point{
		seq: cur.Seq, boot: cur.Boot, wall: cur.Wall, cores: small(t.last.Cores), memory: small(toFloat(t.last.Memory)),
		read: small(t.last.ReadRate), write: small(t.last.WriteRate),
	})
}

func small(v rt.Opt[float64]) float32 {
	if x, ok := v.Get(); ok {
		return float32(x)
	}
	return float32(math.NaN())
}

// series are the newest values of points.
func series(points []point, of func(*point) float32) []rt.Opt[float64] {
	points = points[max(0, len(points)-window):]
	out := make([]rt.Opt[float64], len(points))
	for i := range points {
		if v := of(&points[i]); v == v {
			out[i].Set(float64(v))
		}
	}
	return out
}

func coresOf(p *point) float32  { return p.cores }
func memoryOf(p *point) float32 { return p.memory }
func readOf(p *point) float32   { return p.read }
func writeOf(p *point) float32  { return p.write }

// job is the run as the list shows it.
func (t *tape) job(now time.Time) Job {
	run := t.run
	j := Job{Run: &run, Path: t.path, Live: t.live, Figures: t.last, cores: series(t.points, coresOf), memory: series(t.points, memoryOf)}
	if !run.AllocCPUs.Valid() {
		run.AllocCPUs = t.cpus
	}
	j.ElapsedSec = j.elapsed(now).Seconds()
	return j
}

// detail is the run at a moment after its first reading; a negative one is the newest.
func (t *tape) detail(ctx context.Context, at time.Duration, now time.Time) (*Detail, error) {
	d := &Detail{Job: t.job(now), Count: len(t.points), mine: t.mine}
	n := len(t.points)
	if n == 0 {
		return d, nil
	}
	d.First = time.Unix(0, t.points[0].wall)
	d.Last = time.Duration(t.points[n-1].boot - t.first)
	i := t.newest()
	d.At = time.Duration(t.points[i].boot - t.first)
	if at >= 0 {
		d.At = min(at, d.Last)
		i = max(sort.Search(n, func(k int) bool { return t.points[k].boot-t.first > int64(d.At) })-1, 0)
	}
	d.Index, d.Taken = i+1, time.Duration(t.points[i].boot-t.first)
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
	d.Steps = t.steps()
	return d, nil
}

// newest is the reading that is shown without being asked for. Of a command that has
// ended it is the last one of its processes: the very last was taken without them.
func (t *tape) newest() int {
	i := len(t.points) - 1
	if t.run.JobID.Valid() || !t.settled() {
		return i
	}
	for i > 0 && t.points[i].memory == 0 {
		i--
	}
	return i
}

// load reads the interval that ends with a point.
func (t *tape) load(ctx context.Context, i int) (err error) {
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
		t.points = nil // readings have been thinned since
		return fmt.Errorf("%s: reading %d has been thinned since it was listed: look again", t.path, seq)
	}
	return nil
}

// kept is how many frames of the program before a moment are read: enough for the
// rates of workers that send one with every second line.
const kept = 4

// frames is what the job's program has broadcast at a time, nil where nothing of it
// was kept or can be read: the readings are shown without.
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
		p.take(e)
	}
	return p
}

// steps are those of the reading that is shown and those that had ended before.
func (t *tape) steps() []step {
	var out []step
	for i := range t.ended {
		if e := &t.ended[i]; e.boot < t.cur.Boot {
			out = append(out, step{StepReading: e.StepReading})
		}
	}
	for i := range t.cur.Steps {
		s := step{StepReading: t.cur.Steps[i]}
		if t.prev != nil {
			at := slices.IndexFunc(t.prev.Steps, func(p rt.StepReading) bool { return p.Step == s.Step && p.Task == s.Task })
			if at >= 0 {
				s.before = &t.prev.Steps[at]
			}
		}
		out = append(out, s)
	}
	return out
}
