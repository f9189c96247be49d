package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// ErrCommandEnded reports to Run that the tracked command has ended: the caller cancels
// Run's context with this cause (context.WithCancelCause). The last snapshot then has
// ReasonLast.
var ErrCommandEnded = errors.New("the tracked command ended")

// ErrJobEnded reports to Run that the resource manager has ended the job, in the same way.
// If no process of the job is left, the last snapshot has ReasonLast, even if the job's
// cgroup still exists.
var ErrJobEnded = errors.New("the job ended")

// Options set what a Recorder reads, when it reads, and where its snapshots go.
type Options struct {
	// FirstInterval is the time between readings during the period FirstFor. The period
	// begins at the start of the run, and again when the job appears. FirstFor 0 disables it.
	FirstInterval, FirstFor time.Duration
	// Interval is the time between all other readings.
	Interval  time.Duration
	Node      []Source   // sources of the node's values, read in this order, after Job
	NodeCache *NodeCache // shares the values of Node among trackers; nil for none
	Sources   []Source   // read in this order, after Job and Node
	Job       Job        // nil if no job is watched
	Sinks     []Sink
	Ledger    Ledger // nil for none

	// Budget is the fraction of a core that the whole process may use; 0 for no limit.
	// Above it, the recorder first skips the sources in Drop, in this order, and then
	// doubles the time between readings, at most three times. StepsName in Drop stands for
	// the steps of a Job that is a StepSkipper. The first and the last snapshot of a run or
	// a job skip no source.
	Budget float64
	Drop   []string
	// Used returns the CPU time that the tracker has used so far. The default returns the
	// time of the process.
	Used func() time.Duration

	// Clock returns CLOCK_REALTIME and CLOCK_BOOTTIME in nanoseconds. The default reads
	// the system's clocks.
	Clock func() (wall, boot int64)
}

// Recorder takes snapshots on a schedule. Only one goroutine may use it.
type Recorder struct {
	o       Options
	snap    rt.Snapshot // reused for every reading
	seq     int64       // of the newest snapshot
	written int64       // Boot time of the newest snapshot
	node    []status    // of o.Node
	cache   status      // of o.NodeCache
	sums    nodeSums    // of the values from o.NodeCache
	budget  budget
	clock   runClock
	clocks  clocks
	missed  int      // readings that were due while an earlier one still ran
	thinned int      // readings that the longer intervals of the budget left out
	sources []status // of o.Sources
	job     status
	sinks   []status // of o.Sinks

	acknowledgers []Acknowledger // the job and the sources that are Acknowledgers
	eventSources  []EventSource  // the job and the sources that are EventSources

	// The job is also read at its events, even while a sink is storing a snapshot. mu
	// lets only one goroutine read the job, and protects the fields below.
	mu        sync.Mutex
	spare     rt.Snapshot   // buffer for a reading at an event
	candidate rt.Snapshot   // the job's newest reading: only Job, Wall and Boot are set
	earlier   rt.JobReading // the job's reading before candidate
}

// New returns a recorder, or an error that names the invalid option.
func New(o Options) (*Recorder, error) {
	switch {
	case o.Interval <= 0:
		return nil, fmt.Errorf("an interval of %s between readings: it must be greater than 0", o.Interval)
	case o.FirstFor > 0 && o.FirstInterval <= 0:
		return nil, fmt.Errorf("a first interval of %s between readings: it must be greater than 0", o.FirstInterval)
	}
	if o.Clock == nil {
		o.Clock = systemClock
	}
	if o.Used == nil {
		o.Used = ProcessTime
	}
	if _, ok := o.Job.(StepSkipper); !ok {
		o.Drop = slices.DeleteFunc(slices.Clone(o.Drop), func(name string) bool { return name == StepsName })
	}
	r := &Recorder{
		o: o, clock: newRunClock(o.Clock), budget: budget{share: o.Budget, drop: o.Drop, used: o.Used},
		node: make([]status, len(o.Node)), sources: make([]status, len(o.Sources)), sinks: make([]status, len(o.Sinks)),
	}
	r.acknowledgers, r.eventSources = optional[Acknowledger](r), optional[EventSource](r)
	return r, nil
}

// systemClock reads the two clocks, one immediately after the other.
func systemClock() (wall, boot int64) {
	return int64(clock(unix.CLOCK_REALTIME)), int64(clock(unix.CLOCK_BOOTTIME))
}

// Run takes the first snapshot at once. Then it takes one at every tick, when the job appears,
// and when the job nears its memory limit. It takes the last one when the job ends or ctx is done.
// Errors go to the ledger and never end the run.
//
// Run returns the reason of the last snapshot. This is ReasonLast if the job ended (see also
// ErrJobEnded) or the cause of ctx is ErrCommandEnded. Otherwise it is ReasonStop.
//
// A job's cgroup can be created again for its next step. For that case Run can be called
// again after the job's end. It then takes no snapshot before the job appears, and returns
// ReasonLast if ctx is done first. The caller closes the sources.
func (r *Recorder) Run(ctx context.Context) rt.Reason {
	defer r.cost()
	events, stop := r.watch()
	defer stop()
	why := rt.ReasonFirst
	if r.seq > 0 {
		if !appears(ctx, events) {
			return rt.ReasonLast
		}
		why = rt.ReasonAppeared
	}
	ticks := r.schedule()
	r.take(why)
	timer := time.NewTimer(time.Until(ticks.next))
	defer timer.Stop()
	for {
		timer.Reset(time.Until(ticks.next))
		select {
		case <-ctx.Done():
			return r.finish(ctx)
		case e := <-events:
			switch e {
			case JobEnded:
				r.read(rt.ReasonLast)
				r.complete()
				r.put()
				return rt.ReasonLast
			case JobNearLimit:
				r.take(rt.ReasonTick)
			default:
				ticks = r.schedule()
				r.take(rt.ReasonAppeared)
			}
		case <-timer.C:
			r.tick(&ticks, ticks.next)
		}
	}
}

// tick takes the snapshot that was due at the time due, and moves ticks to the next reading.
func (r *Recorder) tick(ticks *schedule, due time.Time) {
	r.take(rt.ReasonTick)
	now := time.Now()
	ticks.factor = r.budget.factor()
	r.thinned += ticks.factor - 1
	if missed := ticks.advance(now); missed > 0 {
		r.gap(missed, now.Sub(due))
	}
}

// schedule returns a schedule that begins now.
func (r *Recorder) schedule() schedule {
	now := time.Now()
	s := schedule{next: now, fast: r.o.FirstInterval, slow: r.o.Interval, fastUntil: now.Add(r.o.FirstFor), factor: r.budget.factor()}
	s.advance(now)
	return s
}

// appears waits for the job. It returns false if ctx is done first, or another event comes first.
func appears(ctx context.Context, events <-chan JobEvent) bool {
	select {
	case <-ctx.Done():
		return false
	case e := <-events:
		return e == JobAppeared
	}
}

// watch starts a goroutine that receives the job's events, so that a snapshot in progress
// does not delay them. At each event except JobEnded the goroutine reads the job. It passes
// JobAppeared and JobEnded to Run. It drops a JobNearLimit if two events already wait for
// Run. It does not pass JobStepEnded, which Run does not need.
func (r *Recorder) watch() (events <-chan JobEvent, stop func()) {
	if r.o.Job == nil {
		return nil, func() {}
	}
	out, quit := make(chan JobEvent, 2), make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		defer r.recoverEvents()
		for {
			var e JobEvent
			var ok bool
			select {
			case e, ok = <-r.o.Job.Events():
			case <-quit:
			}
			if !ok {
				return
			}
			if e != JobEnded {
				r.readCandidate()
			}
			switch e {
			case JobStepEnded:
			case JobNearLimit:
				select {
				case out <- e:
				default: // dropped, so that the job's end does not wait for a snapshot in progress
				}
			default:
				select {
				case out <- e:
				case <-quit:
					return
				}
				if e == JobEnded {
					return
				}
			}
		}
	})
	return out, func() { close(quit); done.Wait() }
}

// take takes a snapshot and passes it to the sinks.
func (r *Recorder) take(why rt.Reason) {
	r.read(why)
	r.put()
	r.keepBudget()
}

// read reads the job, the node and the sources into r.snap.
func (r *Recorder) read(why rt.Reason) {
	s := &r.snap
	ahead := r.begin(s, why)
	r.compareClocks(s.Boot, ahead)
	if r.o.Job != nil {
		r.mu.Lock()
		err := r.readJob(s)
		r.mu.Unlock()
		r.report(&r.job, "sensor", "cgroup", err)
	}
	r.readNode(s)
	for i, src := range r.o.Sources {
		if why == rt.ReasonTick && r.budget.skips(src.Name()) {
			continue
		}
		r.report(&r.sources[i], "sensor", src.Name(), read(src, s))
	}
}

// begin clears s and sets its reason and its time. ahead is the lead of the wall clock over the
// run's clock, see runClock.
func (r *Recorder) begin(s *rt.Snapshot, why rt.Reason) (ahead time.Duration) {
	clearNode(s)
	s.Node, s.Job, s.Tree, s.GPU = rt.NodeReading{}, rt.JobReading{}, rt.TreeReading{}, rt.GPUUse{}
	s.GPUs, s.Steps, s.Procs, s.GPUProcesses = s.GPUs[:0], s.Steps[:0], s.Procs[:0], s.GPUProcesses[:0]
	s.Energy, s.Perf = s.Energy[:0], s.Perf[:0]
	s.Reason = why
	s.Wall, s.Boot, ahead = r.clock.now()
	return ahead
}

// put numbers the snapshot and passes it to the sinks, then the events to the ledger.
func (r *Recorder) put() {
	r.seq++
	r.snap.Seq = r.seq
	r.written = r.snap.Boot
	for i, sink := range r.o.Sinks {
		r.report(&r.sinks[i], "spool", "snapshot", put(sink, &r.snap))
	}
	for _, a := range r.acknowledgers {
		a.Written(&r.snap)
	}
	r.forwardEvents()
}

// finish takes the last snapshot when ctx is done, and returns its reason. The job may have ended
// at the same time.
func (r *Recorder) finish(ctx context.Context) rt.Reason {
	why := rt.ReasonStop
	if errors.Is(context.Cause(ctx), ErrCommandEnded) {
		why = rt.ReasonLast
	}
	r.read(why)
	job := &r.snap.Job
	isEmpty := job.Phase == rt.JobPresent && job.Pids.Or(0) == 0
	isOver := isEmpty && errors.Is(context.Cause(ctx), ErrJobEnded)
	if job.Phase == rt.JobGone || isOver {
		why = rt.ReasonLast
		r.snap.Reason = why
		r.complete()
	}
	r.put()
	return why
}

// schedule computes when readings are due. It counts from the time at which a reading was due,
// not from the time at which it was taken. So a slow reading never delays the next ones.
type schedule struct {
	next       time.Time     // when the next reading is due
	fast, slow time.Duration // Options.FirstInterval and Interval
	fastUntil  time.Time     // the end of the period with the fast interval
	factor     int           // multiplies both intervals, see budget.factor
}

// advance moves next to the first reading in the future and returns how many readings were missed.
func (s *schedule) advance(now time.Time) (missed int) {
	step := s.slow * time.Duration(s.factor)
	if s.next.Before(s.fastUntil) {
		step = s.fast * time.Duration(s.factor)
	}
	s.next = s.next.Add(step)
	if late := now.Sub(s.next); late >= 0 {
		missed = int(late/step) + 1
		s.next = s.next.Add(time.Duration(missed) * step)
	}
	return missed
}
