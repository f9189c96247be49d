package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// Layout describes how the resource manager arranges the directories below a job's.
type Layout interface {
	// Locate returns the step and task to which a directory belongs. path is absolute or
	// relative to the job's directory.
	Locate(path string) cgroupfs.Dir
	// DaemonDirs returns the directories that can contain the daemon of a step.
	DaemonDirs(stepDir string) [3]string
}

// Options are the settings of NewJob. The zero value is ready to use.
type Options struct {
	// ProcRoot is where proc is mounted; "" is /proc. <ProcRoot>/devices lists the block
	// devices that are stacked on others. <ProcRoot>/<pid>/stat has the CPU time of the
	// resource manager's own process in the extern step.
	ProcRoot string
	// Settle limits how long JobAppeared waits for the controllers of CPU time and memory after the
	// first v1 controller has appeared; 0 is 50 ms.
	Settle time.Duration
	// StepEnds is called by the watcher when a directory of the job is removed, before the
	// watcher reads the job's counters. After lost events it is called after that reading.
	// The function has a few milliseconds to read what else ends with the step. step is the
	// step that has ended with all of its tasks, or empty if no whole step has ended. stepds
	// contains the daemon of the step to which the directory belongs. The function must not
	// call a method of the Job. Nil for none.
	StepEnds func(step string, stepds []int)
	// StepBegins is called by the watcher when a directory of the job was created. stepds
	// are processes of the job's cgroup. In the call for the directory of a task they include
	// the daemon of its step, and the task has not begun yet. The function must
	// be quick and must not call a method of the Job. Nil for none.
	StepBegins func(stepds []int)
	// Raise gives the calling thread at least the priority of the watcher's thread until restore is
	// called on the same thread. The goroutine stays on the thread meanwhile. If ok is false, Raise
	// has changed nothing, and the watcher's thread takes the reading. Nil does the same.
	Raise func() (restore func(), ok bool)
	// HasBegun reports whether the job may have begun. If NewJob finds directories without
	// a process, and HasBegun then returns false, an earlier attempt of the job left them.
	// Their counts are left out. Nil counts all.
	HasBegun func() bool
	// MayBeReused reports whether an earlier attempt of the job may have used the job's directory. If
	// NewJob cannot leave out what such a directory has counted, the ledger says so. Nil means never.
	MayBeReused func(dir string) bool
	// NoNearLimit disables the near-limit check, for callers that take no snapshot at
	// JobNearLimit. Kills are logged all the same.
	NoNearLimit bool
}

// Job is one job's cgroup on this node, watched from before it exists until after it is
// gone. Its methods may be called from any goroutine.
type Job struct {
	events    chan collect.JobEvent
	done      chan struct{} // closed by Close
	ended     chan struct{} // closed when the watcher has returned
	close     sync.Once
	thread    atomic.Int64 // of the watcher; 0 before it runs
	isWatched atomic.Bool  // by a goroutine, see NewJob
	requests  requests
	callbacks callbacks
	raise     func() (restore func(), ok bool)

	mu    sync.Mutex
	state state
}

// NewJob starts to watch for the job's cgroup in the candidates. The first candidate that
// exists is the job's, so the most certain one must be first. A pattern must not match the
// directory of another node on the same host. NewJob does not wait, and the directories
// need not exist yet; a cgroup that exists is found at once. Without inotify the watcher
// looks for the cgroup every second. It fails without a candidate.
func NewJob(candidates []cgroupfs.Candidate, layout Layout, opts Options) (*Job, error) {
	j, err := newJob(candidates, layout, opts)
	if err != nil {
		return nil, err
	}
	j.isWatched.Store(true)
	go j.watch()
	return j, nil
}

// newJob is NewJob without the watcher's goroutine.
func newJob(candidates []cgroupfs.Candidate, layout Layout, opts Options) (*Job, error) {
	j := &Job{
		events: make(chan collect.JobEvent, 64), done: make(chan struct{}), ended: make(chan struct{}),
		callbacks: callbacks{layout: layout, ends: opts.StepEnds, begins: opts.StepBegins}, raise: opts.Raise,
	}
	if j.raise == nil {
		j.raise = func() (func(), bool) { return nil, false }
	}
	s := &j.state
	w, err := newWatcher(candidates, s)
	if err != nil {
		return nil, err
	}
	procRoot := cmp.Or(opts.ProcRoot, "/proc")
	stacked := readStackedMajors(procRoot)
	s.watch, s.epoll, s.callbacks, s.phase = w, newEpoll(), &j.callbacks, rt.JobPending
	s.settle = cmp.Or(opts.Settle, 50*time.Millisecond)
	s.newFiles = func(version int) *counterFiles { return newJobFiles(version, stacked, procRoot) }
	s.tasks = newTaskSet(s, stacked)
	s.pressure = newMemoryMonitor(s.epoll, opts.NoNearLimit, &s.buf)
	j.requests.bind(j)
	w.Look()
	s.leaveOutEarlier(&opts)
	return j, nil
}

// Events returns the channel of the job's events, which is never closed. If nothing
// receives from it, some JobStepEnded and JobNearLimit are dropped, but no reading is
// lost. Without an extern step, Slurm removes the job's cgroup after each step and creates
// it again for the next one, so JobAppeared may follow JobEnded.
func (j *Job) Events() <-chan collect.JobEvent { return j.events }

// Found returns the candidate's layout and the job's directory. With v1 it is the directory
// of cpuacct, or else of the next controller that exists. ok is false before any directory
// appeared. After the job's end Found keeps returning the last values.
func (j *Job) Found() (layout, path string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.watch.Found()
}

// Phase returns the phase of the job: whether its cgroup exists.
func (j *Job) Phase() rt.JobPhase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.phase
}

// Read fills s.Job with its phase, and appends the steps and tasks to s.Steps. It changes
// nothing else in s. Only one goroutine may call it at a time.
//
// A step or task that has ended is in each reading until Written is called with a snapshot
// that has it. If the cgroup does not exist, the phase says so; that is not an error. When
// a directory is removed, the watcher takes a last reading by itself: counters, peak and
// limit keep these values. Other values that cannot be read are absent. An error means that
// the cgroup exists and nothing in it could be read.
func (j *Job) Read(s *rt.Snapshot) error {
	if !j.state.wasFound.Load() {
		s.Job = rt.JobReading{Phase: rt.JobPending}
		return nil
	}
	q := &j.requests
	q.mu.Lock()
	defer q.mu.Unlock()
	q.snap = s
	j.request(q.read)
	q.snap = nil
	return q.err
}

// readTotals reads the job.
func (j *Job) readTotals(s *rt.Snapshot) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.readTotals(s)
}

// readSteps reads the steps and tasks. It releases the lock between two of them, because
// the watcher has only milliseconds for a last reading.
func (j *Job) readSteps(s *rt.Snapshot) {
	j.mu.Lock()
	groups := j.state.tasks.List()
	j.mu.Unlock()
	first := len(s.Steps)
	for _, g := range groups {
		j.readGroup(g, s)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.tasks.AppendEnded(s, first)
}

func (j *Job) readGroup(g *group, s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock() // also after a panic, see recoverWatcher
	j.state.tasks.ReadGroup(g, s)
}

// Procs appends the pids of the job's processes on this node to dst, without the resource
// manager's daemons. The processes may already have ended.
func (j *Job) Procs(dst []int) []int {
	if !j.state.wasFound.Load() {
		return dst
	}
	q := &j.requests
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pids = dst
	j.request(q.list)
	dst, q.pids = q.pids, nil
	return dst
}

// Written reports that the snapshot s, which Read filled, is stored. The ended steps and
// tasks in it are then not read again.
func (j *Job) Written(s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state.files != nil {
		j.state.files.Written()
	}
	j.state.tasks.Written(s)
}

// SkipSteps sets whether the following readings omit steps and tasks. Those that end are
// read in any case.
func (j *Job) SkipSteps(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.tasks.SkipSteps(on)
}

// Notes returns the events for the run's ledger since the last call.
func (j *Job) Notes() []rt.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	notes := j.state.notes
	j.state.notes = nil
	return notes
}

// Thread returns the id of the watcher's thread, which takes the last readings; 0 before it
// runs. A program that lowers the priority of its threads (setpriority(2)) must exclude this
// one, because it has to run within 5 ms.
func (j *Job) Thread() int { return int(j.thread.Load()) }

// Close stops the watcher and closes all descriptors. Read may still be called.
func (j *Job) Close() error {
	var err error
	j.close.Do(func() {
		close(j.done)
		err = j.state.watch.Wake()
		<-j.ended
		j.requests.mu.Lock() // after this no request wakes the watcher: the number of its closed descriptor may be reused
		j.isWatched.Store(false)
		j.requests.mu.Unlock()
		j.mu.Lock()
		defer j.mu.Unlock()
		err = errors.Join(err, j.state.close())
	})
	if err != nil {
		return fmt.Errorf("end the watching of the job's cgroup: %w", err)
	}
	return nil
}
