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
	"github.com/resource-tracker/rt/collect/cgroup/counters"
	"github.com/resource-tracker/rt/collect/cgroup/pressure"
	"github.com/resource-tracker/rt/collect/cgroup/tasks"
	"github.com/resource-tracker/rt/collect/cgroup/watch"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// Layout is how the resource manager arranges the directories below a job's.
type Layout interface {
	// Locate returns the step and task to which a directory belongs. path is absolute or
	// relative to the job's directory.
	Locate(path string) cgroupfs.Dir
	// DaemonDirs returns the directories that can have the daemon of a step.
	DaemonDirs(stepDir string) [3]string
}

// Options are the settings of NewJob. The zero value is ready to use.
type Options struct {
	// ProcRoot is where proc is mounted; "" is /proc. <ProcRoot>/devices says which block
	// devices are stacked on others, <ProcRoot>/<pid>/stat what the resource manager's own
	// process in the extern step has used.
	ProcRoot string
	// Settle is how long JobAppeared waits for the v1 controllers that count CPU time and
	// memory after the first one appeared; 0 is 50 ms.
	Settle time.Duration
	// StepEnds is called by the watcher when a directory of the job is removed, right
	// after its own reading: what else must be read then has some milliseconds. step is
	// the one that has ended with all of its tasks, empty for none; stepds are processes,
	// and one of them is its daemon. The function must be quick and call no
	// method of the Job. Nil for none.
	StepEnds func(step string, stepds []int)
	// StepBegins is called by the watcher when a directory of the job was made. stepds
	// are processes of the job's cgroup: at the latest when a task's directory is made,
	// the daemon of its step is among them, and the task has not begun. As StepEnds
	// otherwise.
	StepBegins func(stepds []int)
	// NoNearLimit disables the near-limit check, for callers that take no snapshot at
	// JobShort. Kills are logged all the same.
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

	mu    sync.Mutex
	state state
}

// NewJob begins to watch for the job's cgroup in the candidates, which are tried in their
// order: the first one of which a directory exists is the job's, so the most certain one
// is first. A pattern that also matches the directory of another node of the same host
// would take that one. NewJob does not wait: none of the directories has to exist. A
// cgroup that exists is found at once. Without inotify the cgroup is looked for every
// second. The error says which candidate is malformed.
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
		callbacks: callbacks{layout: layout, ends: opts.StepEnds, begins: opts.StepBegins},
	}
	s := &j.state
	w, err := watch.NewWatcher(candidates, s)
	if err != nil {
		return nil, err
	}
	procRoot := cmp.Or(opts.ProcRoot, "/proc")
	stacked := counters.ReadStackedMajors(procRoot)
	s.watch, s.epoll, s.callbacks, s.phase = w, watch.NewEpoll(), &j.callbacks, rt.JobPending
	s.settle = cmp.Or(opts.Settle, 50*time.Millisecond)
	s.newFiles = func(version int) *counters.Files { return counters.NewJobFiles(version, stacked, procRoot) }
	s.tasks = tasks.NewSet(s, &s.ledger, s.epoll, stacked, &s.buf)
	s.pressure = pressure.NewMonitor(s.epoll, opts.NoNearLimit, &s.buf)
	j.requests.bind(j)
	w.Look()
	return j, nil
}

// Events delivers what happens to the job. Without a receiver some of JobStepEnded and
// JobShort may be left out; no reading is lost by that. The channel is never closed.
// Without an extern step Slurm removes the job's cgroup after each step and makes it
// again for the next one: JobAppeared may follow JobEnded.
func (j *Job) Events() <-chan collect.JobEvent { return j.events }

// Found returns the candidate's layout and the job's directory; for v1 the one of
// cpuacct, or else of the next controller that exists. It is false before any directory
// appeared, and keeps its last answer after the end.
func (j *Job) Found() (layout, path string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.watch.Found()
}

// Phase says whether the job's cgroup exists.
func (j *Job) Phase() rt.JobPhase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.phase
}

// Read fills s.Job, its phase included, appends the steps and tasks to s.Steps, and
// changes nothing else of s; one goroutine at a time calls it. A step or task that ended
// is in each reading until Written is called with a snapshot that has it. A cgroup that
// does not exist, yet or any more, is a phase and no error. Counters, peak and limit keep
// the values of the last reading when their files are gone: the watcher takes it by itself
// when a directory is removed; a job that is gone has its totals. All else that
// cannot be read now is absent. An error means that nothing at all could be read of a
// cgroup that exists.
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

func (j *Job) read(s *rt.Snapshot) error {
	err := j.readTotals(s)
	j.readSteps(s)
	return err
}

func (j *Job) readTotals(s *rt.Snapshot) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state.readTotals(s)
}

// readSteps reads the steps and tasks. Between two of them it releases the lock for the
// watcher, which has to be on time.
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

func (j *Job) readGroup(g *tasks.Group, s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock() // also after a panic, see recoverWatcher
	j.state.tasks.ReadGroup(g, s)
}

// Procs appends the pids of the job's processes on this node to dst, without those of the
// resource manager's daemons. They may have ended since.
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

// Written says that s, which Read has filled, was kept: the steps and tasks in it that
// ended are not read again.
func (j *Job) Written(s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.state.files != nil {
		j.state.files.Written()
	}
	j.state.tasks.Written(s)
}

// SkipSteps leaves the steps and tasks out from the next reading on, except those that end,
// or reads them again.
func (j *Job) SkipSteps(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.tasks.SkipSteps(on)
}

// Notes returns what happened since the last call that the run's ledger should have,
// each with its time.
func (j *Job) Notes() []rt.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	notes := j.state.notes
	j.state.notes = nil
	return notes
}

// Thread is the id of the thread that watches and takes the last readings, 0 before it
// runs. Only the watcher uses it: if the program lowers the priority of its threads
// (setpriority(2)), this one has to run within 5 ms.
func (j *Job) Thread() int { return int(j.thread.Load()) }

// Close ends the watching and closes all descriptors. Read may still be called.
func (j *Job) Close() error {
	var err error
	j.close.Do(func() {
		close(j.done)
		err = j.state.watch.Wake()
		<-j.ended
		j.requests.mu.Lock() // nothing wakes the watcher any more: its descriptor may be another file's by then
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
