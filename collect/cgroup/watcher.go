package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
)

// watch is the watcher's goroutine: one wait, one step, until Close.
func (j *Job) watch() {
	defer close(j.ended)
	defer j.recoverWatcher()
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	j.thread.Store(int64(unix.Gettid()))
	var notices []notice
	for {
		for _, e := range j.step(notices) {
			if !j.send(e) {
				return
			}
		}
		var err error
		notices, err = j.next()
		isTimeout := errors.Is(err, os.ErrDeadlineExceeded)
		if err != nil && !isTimeout {
			if !errors.Is(err, errWoken) {
				j.mu.Lock()
				j.state.watchFailed(err, false)
				j.mu.Unlock()
			}
			return
		}
	}
}

// recoverWatcher turns a panic into an error of the job, which is then read at ticks alone.
func (j *Job) recoverWatcher() {
	if p := recover(); p != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		err := fmt.Errorf("the watching of the job's cgroup panicked: %v", p)
		j.state.watchFailed(err, false)
		j.state.Note(rt.Event{Kind: "sensor", Name: "cgroup", Status: "failed", Detail: err.Error()})
	}
}

// send delivers e, or returns false after Close. The watcher must take its readings even if nothing
// receives its events: while more than half of the queue is used, optional events are dropped.
func (j *Job) send(e collect.JobEvent) bool {
	isOptional := e == collect.JobStepEnded || e == collect.JobNearLimit
	if isOptional && len(j.events) > cap(j.events)/2 {
		return true
	}
	for {
		select {
		case j.events <- e:
			return true
		case <-j.done:
			return false
		case f := <-j.requests.asked:
			f()
			j.requests.done <- struct{}{}
		}
	}
}

// step handles the notices and returns the events to deliver.
func (j *Job) step(notices []notice) []collect.JobEvent {
	j.callbacks.stepsEnd(notices)
	events := j.handle(notices)
	if daemons, ok := j.takeNewDirs(); ok { // not all of them gave a notice
		j.callbacks.begins(daemons)
	}
	j.callbacks.stepsBegin(notices)
	return events
}

// takeNewDirs returns the daemons of the steps if a directory was made since the last call.
// ok is false without StepBegins. StepBegins must not be called with the lock: it may wait
// for a thread of low priority, and the job's other methods would wait too.
func (j *Job) takeNewDirs() (daemons []int, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.state
	ok = s.hasNewDir && j.callbacks.begins != nil
	if ok {
		daemons = s.tasks.Daemons(nil)
	}
	s.hasNewDir = false
	return daemons, ok
}

// handle is step without the callbacks. The reading comes before all else: the counters of
// a job can be gone 5 ms after the first of its directories.
func (j *Job) handle(notices []notice) []collect.JobEvent {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := &j.state
	s.out = s.out[:0]
	wasPresent, kills := s.isPresent(), s.pressure.Kills()
	s.epoll.Ready(s.ready)
	s.readEnding(notices)
	s.checkMemory()
	for _, n := range notices {
		s.handle(n)
	}
	if len(notices) == 0 && s.isBlind {
		s.reconcile()
	}
	for s.watch.TakeReplaced() { // something was replaced meanwhile
		s.reconcile()
	}
	if wasPresent && s.pressure.Kills() > kills { // whatever the reading was for
		s.reportKill()
	}
	s.schedule(time.Now())
	return s.out
}

// readEnding reads the job, and the steps and tasks that lost a directory or all processes.
func (s *state) readEnding(notices []notice) {
	isEnding := func(n notice) bool {
		isProcessEnd := n.Modified() && !n.IsOf(memoryEvents) && !n.IsOf(procsFile)
		isEnd := n.Removed() || isProcessEnd
		return isEnd && s.watch.Covers(n.Path())
	}
	if !slices.ContainsFunc(notices, isEnding) {
		return
	}
	s.ReadJob()
	for _, n := range notices {
		if !isEnding(n) {
			continue
		}
		path := n.Path()
		if n.Modified() {
			path = filepath.Dir(path)
		}
		root, ok := s.watch.RootOf(path)
		if !ok {
			continue
		}
		if d := s.locate(root, path); d.Step != "" {
			s.tasks.ReadEnding(root, path, d.Step, n.Removed())
		}
	}
}

// procsFile lists the processes of a directory. A write to it moves one there.
const procsFile = "cgroup.procs"

// handle updates the directories after one notice.
func (s *state) handle(n notice) {
	switch path := n.Path(); {
	case s.watch.IsStale(n):
	case n.Overflow():
		if s.files != nil {
			s.files.MissStep()
		}
		s.reconcile()
	case n.IsOf(memoryEvents):
		s.memoryChanged(n.Dir)
	case n.IsOf(procsFile):
		s.tasks.ProcessJoined(filepath.Dir(n.Dir))
	case n.Modified():
		s.checkPopulated()
	case n.Removed():
		if !s.watch.Covers(path) || !s.watch.Exists(path) {
			s.removed(path)
		}
	case n.Created():
		s.created(path)
	case n.Ignored():
		s.watch.Forget(n)
		s.watch.Look()
	}
}

// requests are functions that the watcher's thread runs for other goroutines. A goroutine that reads
// the job's files itself holds the job's lock. If its thread has a low priority and is
// preempted, the watcher cannot take a last reading in time. Options.Raise avoids the two switches
// between threads.
type requests struct {
	mu sync.Mutex // one at a time

	read, list func() // bound once: a request allocates nothing

	snap *rt.Snapshot
	err  error
	pids []int

	asked chan func()   // at most one
	done  chan struct{} // one for each that was taken
}

func (q *requests) bind(j *Job) {
	q.asked, q.done = make(chan func(), 1), make(chan struct{}, 1)
	q.read = func() {
		q.err = j.readTotals(q.snap)
		j.readSteps(q.snap)
	}
	q.list = func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		q.pids = j.state.tasks.Procs(q.pids)
	}
}

// request runs f with the priority that this thread has after Options.Raise. Without that priority
// it lets the watcher run f, if there is one.
func (j *Job) request(f func()) {
	q := &j.requests
	if !j.isWatched.Load() {
		f()
		return
	}
	if restore, ok := j.raise(); ok {
		defer restore()
		f()
		return
	}
	select {
	case q.asked <- f:
	default: // the watcher has ended without it
		f()
		return
	}
	if err := j.state.watch.Wake(); err != nil { // it wakes by itself later
		j.serve()
	}
	select {
	case <-q.done:
	case <-j.ended:
		select {
		case <-q.done:
		default:
			f()
		}
	}
}

// serve does what was requested, if anything was.
func (j *Job) serve() {
	select {
	case f := <-j.requests.asked:
		f()
		j.requests.done <- struct{}{}
	default:
	}
}

// next waits for events and serves requests meanwhile. It fails with errWoken after Close.
func (j *Job) next() ([]notice, error) {
	s := &j.state
	for {
		notices, err := s.watch.Wait(s.deadline, s.epoll.FD())
		if !errors.Is(err, errWoken) {
			return notices, err
		}
		select {
		case <-j.done:
			return nil, err
		default:
		}
		s.watch.Rest()
		j.serve()
	}
}
