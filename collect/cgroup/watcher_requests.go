package cgroup

import (
	"errors"
	"sync"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup/watch"
)

// requests are what other goroutines have the watcher's thread do. A reader of the job's
// files holds its lock, and a thread of low priority that is preempted with it would keep
// the watcher from a last reading: so the watcher reads for it.
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
	q.read = func() { q.err = j.read(q.snap) }
	q.list = func() { q.pids = j.procs(q.pids) }
}

// request has the watcher do f, or does it itself without a watcher.
func (j *Job) request(f func()) {
	q := &j.requests
	if !j.isWatched.Load() {
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

// next waits for events of the job's directories and serves requests meanwhile. After
// Close it fails with watch.ErrWoken.
func (j *Job) next() ([]watch.Notice, error) {
	s := &j.state
	for {
		notices, err := s.watch.Wait(s.deadline, s.epoll.FD())
		if !errors.Is(err, watch.ErrWoken) {
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
