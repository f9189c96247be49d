package cgroup

import (
	"errors"
	"sync"

	"github.com/resource-tracker/rt"
)

// errand is what others have the watcher's thread do. Whoever reads the job's
// files holds its lock, and a polite thread that is preempted with it would keep
// the watcher from a last reading: so the watcher reads for them.
type errand struct {
	mu sync.Mutex // one at a time

	read, list func() // bound once: an errand allocates nothing

	snap *rt.Snapshot
	err  error
	pids []int

	asked chan func()   // at most one
	done  chan struct{} // one for each that was taken
}

func (j *Job) newErrand() {
	e := &j.errand
	e.asked, e.done = make(chan func(), 1), make(chan struct{}, 1)
	e.read = func() { e.err = j.read(e.snap) }
	e.list = func() { e.pids = j.procs(e.pids) }
}

// run has the watcher do f, or does it where there is none any more.
func (j *Job) run(f func()) {
	select {
	case j.errand.asked <- f:
	default: // the watcher has left without it
		f()
		return
	}
	if err := j.notify.wake(); err != nil { // it cannot be woken: its own time comes too
		j.serve()
	}
	select {
	case <-j.errand.done:
	case <-j.ended:
		select {
		case <-j.errand.done:
		default:
			f()
		}
	}
}

// serve does what was asked for, if anything was.
func (j *Job) serve() {
	select {
	case f := <-j.errand.asked:
		f()
		j.errand.done <- struct{}{}
	default:
	}
}

// next waits for news of the job's directories and does errands meanwhile. After
// Close it fails with errWoken.
func (j *Job) next() ([]notice, error) {
	for {
		notices, err := j.notify.wait(j.deadline, j.exits.fd)
		if !errors.Is(err, errWoken) {
			return notices, err
		}
		select {
		case <-j.done:
			return nil, err
		default:
		}
		j.notify.rest()
		j.serve()
	}
}
