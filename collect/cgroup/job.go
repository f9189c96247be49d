package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// Options are the settings of NewJob. The zero value is ready to use.
type Options struct {
	// ProcRoot is where proc is mounted; "" is /proc. Of <ProcRoot>/devices it is
	// learned which block devices stand on others, of <ProcRoot>/<pid>/stat what
	// Slurm's own process in the extern step has used.
	ProcRoot string
	// Settle is how long Appeared waits for the v1 controllers that count CPU time
	// and memory after the first one appeared; 0 is 50 ms.
	Settle time.Duration
	// StepEnds is called by the watcher when a directory of the job is removed, right
	// after its own reading: what else must be read then has some milliseconds. step is
	// the one whose tasks have been collected, by whichever of the processes stepds is
	// its daemon; empty where none has. It must be quick and call no method of the Job.
	// Nil for none.
	StepEnds func(step string, stepds []int)
	// StepBegins is called by the watcher when a directory of the job was made. stepds
	// are processes of the job's cgroup: at the latest when a task's directory is made,
	// Slurm's daemon of its step is among them, and the task has yet to begin. As
	// StepEnds otherwise.
	StepBegins func(stepds []int)
	// NoShort is for who takes no snapshot at Short: it is not told, and nobody looks
	// for it. Kills come to the ledger all the same.
	NoShort bool
}

// Job is one job's cgroup on this node, watched from before it exists until after
// it is gone. Its methods may be called from any goroutine.
type Job struct {
	events   chan collect.JobEvent
	done     chan struct{} // closed by Close
	ended    chan struct{} // closed when the watcher has returned
	close    sync.Once
	settle   time.Duration
	ends     func(step string, stepds []int) // Options.StepEnds
	begins   func(stepds []int)              // Options.StepBegins
	skip     majors
	procRoot string       // where proc is mounted
	thread   atomic.Int64 // of the watcher; 0 before it runs
	watched  atomic.Bool  // by a goroutine, see NewJob
	met      atomic.Bool  // the job's cgroup was there once
	errand   errand

	mu     sync.Mutex
	notify *notifier
	search search
	reader reader
	trees  []*tree
	order  []*tree // the trees, best for listing processes first
	buf    scratch
	phase  rt.JobPhase
	fresh  rt.JobReading // what is being read; here, so that no reading allocates it
	last   rt.JobReading // what was read last, with the totals of what vanished since
	past   rt.JobReading // totals of the job's cgroups that are gone
	opened int           // readings that still look for missing files
	part   rt.JobReading // what is being read of a step or task
	err    error         // why something of the cgroup could not be opened or watched

	exits      exits    // of the tasks' processes
	groups     []*group // the steps and tasks that are there
	listed     []*group // those that readSteps goes through
	endedSteps []rt.StepReading
	shed       bool  // leave them out
	crowded    bool  // there were too many
	newPids    []int // scratch
	pairAfter  time.Duration
	notes      []rt.Event

	oomKills      uint64 // that the ledger was told of
	memoryNotices int    // of memory.events
	oom           outOfMemory
	calm          bool   // Options.NoShort
	cpusetLooks   int    // at how many readings its CPUs are still looked at
	allowed       string // CPUs and NUMA nodes that the ledger was told of

	events2   file      // v2: cgroup.events
	populated bool      // what it said last
	blind     bool      // a directory could not be watched: look at it from time to time
	settleBy  time.Time // when Appeared waits no longer; zero while there is nothing to wait for
	deadline  time.Time // of the watcher's next wait; zero is none
	out       []collect.JobEvent
	began     bool  // a directory was made since others were told so
	stepds    []int // scratch
}

// NewJob begins to watch for the job's cgroup in the candidates, the surest first.
// It does not wait: none of their directories has to exist. A cgroup that exists
// is found at once. Where inotify is not to be had, it is looked for every second. The
// error says which candidate is malformed.
func NewJob(candidates []cgroupfs.Candidate, opts Options) (*Job, error) {
	j, err := newJob(candidates, opts)
	if err != nil {
		return nil, err
	}
	j.watched.Store(true)
	go j.watch()
	return j, nil
}

// newJob is NewJob without the watcher's goroutine.
func newJob(candidates []cgroupfs.Candidate, opts Options) (*Job, error) {
	s, err := newSearch(candidates)
	if err != nil {
		return nil, err
	}
	n, err := newNotifier()
	if err != nil {
		return nil, err
	}
	procRoot := cmp.Or(opts.ProcRoot, "/proc")
	j := &Job{
		events: make(chan collect.JobEvent, 64), done: make(chan struct{}), ended: make(chan struct{}),
		settle: cmp.Or(opts.Settle, 50*time.Millisecond), ends: opts.StepEnds, begins: opts.StepBegins, calm: opts.NoShort,
		skip: stackedMajors(procRoot), procRoot: procRoot,
		pairAfter: pairAfter, notify: n, exits: newExits(), oom: newOutOfMemory(), search: s, phase: rt.JobPending,
	}
	j.newErrand()
	j.look()
	return j, nil
}

// Events delivers what happens to the job. Of StepEnded and Short some may be left out while
// nobody receives; no reading is lost by it. The channel is never closed.
func (j *Job) Events() <-chan collect.JobEvent { return j.events }

// Found returns the candidate's layout and the job's directory; for v1 the one of
// cpuacct, or else of the next controller that is there. It is false before any
// directory appeared, and keeps its last answer after the end.
func (j *Job) Found() (layout, path string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.search.layout, j.search.path, j.search.path != ""
}

// Phase says whether the job's cgroup is there.
func (j *Job) Phase() rt.JobPhase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.phase
}

// Read fills s.Job, its phase included, appends the steps and tasks to s.Steps, and
// touches nothing else of s; one goroutine does so at a time. A step or task that
// ended is there until Written is told of a snapshot that has it. While the
// cgroup is not there, or no more, that is a phase and no error. Counters, peak and
// limit whose files are gone keep the values of the last reading, which the watcher
// takes by itself when a directory is removed; a job that is gone shows its totals.
// All else that cannot be read now is absent. An error says that nothing at all
// could be read of a cgroup that is there.
func (j *Job) Read(s *rt.Snapshot) error {
	if !j.met.Load() {
		s.Job = rt.JobReading{Phase: rt.JobPending}
		return nil
	}
	e := &j.errand
	e.mu.Lock()
	defer e.mu.Unlock()
	if !j.watched.Load() {
		return j.read(s)
	}
	e.snap = s
	j.run(e.read)
	e.snap = nil
	return e.err
}

func (j *Job) read(s *rt.Snapshot) error {
	err := j.readTotals(s)
	j.readSteps(s)
	return err
}

func (j *Job) readTotals(s *rt.Snapshot) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase != rt.JobPresent {
		s.Job = j.past
		s.Job.Phase = j.phase
		return nil
	}
	j.take()
	j.tellCPUSet()
	s.Job = j.last
	if v, ok := j.reader.(*v2Reader); ok {
		v.extra.read = 0
	}
	s.Job.AddEnded(&j.past)
	s.Job.Phase = rt.JobPresent
	if j.err != nil && !s.Job.CPUUsage.Valid() && !s.Job.MemCurrent.Valid() && !s.Job.Pids.Valid() {
		return j.err
	}
	return nil
}

// Procs appends the pids of the job's processes on this node to dst: not those of
// Slurm's daemons. They may have ended since.
func (j *Job) Procs(dst []int) []int {
	if !j.met.Load() {
		return dst
	}
	e := &j.errand
	e.mu.Lock()
	defer e.mu.Unlock()
	if !j.watched.Load() {
		return j.procs(dst)
	}
	e.pids = dst
	j.run(e.list)
	dst, e.pids = e.pids, nil
	return dst
}

func (j *Job) procs(dst []int) []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range j.order {
		n := len(dst)
		if _, ok := t.readProcs(&j.buf, &dst); ok && len(dst) > n {
			break
		}
	}
	return dst
}

// daemons are the processes in the job's cgroup that are not the job's own, which
// are Slurm's daemons of its steps. A child of theirs is among them until it has
// gone to its task's directory.
func (j *Job) daemons() []int {
	j.stepds = j.stepds[:0]
	for _, t := range j.order {
		if t.readDaemons(&j.buf, &j.stepds); len(j.stepds) > 0 {
			break
		}
	}
	return j.stepds
}

// Thread is the id of the thread that watches and takes the last readings, 0 before
// it runs. It is the watcher's own: where the program makes its threads yield to
// others (setpriority(2)), this one needs its turn within 5 ms.
func (j *Job) Thread() int { return int(j.thread.Load()) }

// Err returns why a part of the cgroup could not be opened or watched, nil where
// all could. What was opened is read all the same.
func (j *Job) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close ends the watching and gives all descriptors back. Read may still be called.
func (j *Job) Close() error {
	var err error
	j.close.Do(func() {
		close(j.done)
		err = j.notify.wake()
		<-j.ended
		j.errand.mu.Lock() // nobody wakes a watcher whose descriptor may be another file's by then
		j.watched.Store(false)
		j.errand.mu.Unlock()
		j.mu.Lock()
		defer j.mu.Unlock()
		err = errors.Join(err, j.notify.close())
		for _, t := range j.trees {
			j.drop(t)
		}
		for _, g := range j.groups {
			g.final = true // or not: nobody is told any more
		}
		j.endGroups()
		j.oom.close()
		j.exits.close()
		j.trees, j.order = nil, nil
		j.events2.close()
	})
	if err != nil {
		return fmt.Errorf("end the watching of the job's cgroup: %w", err)
	}
	return nil
}

// take reads the job's cgroup into j.last.
func (j *Job) take() {
	if j.opened > 0 {
		j.opened--
		j.reopen()
	}
	r := &j.fresh
	*r = rt.JobReading{}
	j.reader.read(r, &j.buf)
	for _, t := range j.trees {
		if t.has("memory") {
			t.readEvents(r, &j.buf)
		}
	}
	for _, t := range j.order {
		if n, ok := t.readProcs(&j.buf, nil); ok {
			r.Pids.Set(n)
			break
		}
	}
	r.CarryOver(&j.last, totals)
	j.last = *r
	j.tellKills(r)
	j.nearing(r)
	if v, ok := j.reader.(*v2Reader); ok {
		if n := v.shares.guess(); n > 0 {
			j.note(rt.Event{Kind: "job", Name: "cpu", Status: "estimated",
				Detail: fmt.Sprintf("cpu_usec=%d of a step whose end was not read: what slurmstepd used of it is counted as the job's", n)})
		}
	}
}

// reopen opens files of the job's directories that were not there before: a
// controller can be enabled after the directory was made.
func (j *Job) reopen() {
	for _, t := range j.trees {
		for _, c := range t.controllers {
			j.failed(j.reader.open(c, t.dir))
		}
	}
}

// failed keeps the first error of opening or watching.
func (j *Job) failed(err error) {
	if err != nil && j.err == nil && !errors.Is(err, os.ErrClosed) {
		j.err = err
	}
}
