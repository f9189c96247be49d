package proc

import (
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// slowWait is how long a reading waits for what is read slowly.
	slowWait = 50 * time.Millisecond
	// pssPause is the least time between two readings of PSS, and pssShare the part of
	// a core that they may cost.
	pssPause = 2 * time.Minute
	pssShare = 0.0005
	// pssTime bounds one round of PSS. The kernel takes some 4 ms for each GiB that a
	// process has, in which the process may have to wait to change its memory: those
	// that are too large for the time are not asked.
	pssTime    = 20 * time.Millisecond
	pssPerByte = 4e6 / float64(1<<30) // nanoseconds
)

// slowReads reads what a process can keep from being read: the kernel takes the
// lock of its memory for smaps_rollup and environ, and a process that hangs on a
// dead file server may hold it for hours. One goroutine waits for it, and nobody
// for the goroutine. With root and patience it is ready.
type slowReads struct {
	root     string
	patience time.Duration // how long a reading waits
	ask      chan struct{}
	done     chan struct{}
	wait     *time.Timer
	busy     bool // the goroutine has the list

	list  []slowRead
	took  time.Duration
	fault error // of ours, while reading the list
	peek  peek
}

// failed says what went wrong, once the goroutine is done with it.
func (w *slowReads) failed() error {
	if w.busy {
		return nil
	}
	return w.fault
}

// slowRead is one process that is asked, and its answer.
type slowRead struct {
	pid   int
	start uint64
	place bool // for its step and task, else for its PSS

	pss  rt.Opt[uint64]
	step string
	task rt.Opt[uint64]
}

// free says whether a list may be filled.
func (w *slowReads) free() bool {
	if w.busy {
		select {
		case <-w.done:
			w.busy = false
		default:
			return false
		}
	}
	w.list = w.list[:0]
	return true
}

// run reads the list and is true where that was done in time.
func (w *slowReads) run() bool {
	if w.ask == nil {
		w.ask, w.done = make(chan struct{}), make(chan struct{}, 1)
		w.wait = time.NewTimer(w.patience)
		go w.serve(w.ask, w.done)
	}
	w.busy = true
	w.ask <- struct{}{}
	w.wait.Reset(w.patience)
	select {
	case <-w.done:
		w.busy = false
		w.wait.Stop()
		return true
	case <-w.wait.C:
		return false
	}
}

// close lets the goroutine end, when it can.
func (w *slowReads) close() {
	if w.ask != nil {
		close(w.ask)
		w.ask = nil
	}
}

func (w *slowReads) serve(ask <-chan struct{}, done chan<- struct{}) {
	defer func() {
		if p := recover(); p != nil { // it costs the answers to this list
			w.fault = fmt.Errorf("reading PSS and environments of the job's processes panicked: %v", p)
			w.list = w.list[:0]
			done <- struct{}{}
			w.serve(ask, done)
		}
	}()
	for range ask {
		began := time.Now()
		for i := range w.list {
			if r := &w.list[i]; r.place {
				w.readPlace(r)
			} else if time.Since(began) < pssTime {
				w.readPSS(r)
			}
		}
		w.took = time.Since(began)
		done <- struct{}{}
	}
}

func (w *slowReads) readPSS(r *slowRead) {
	b, err := w.peek.path(w.root).num(r.pid).str("/smaps_rollup").read()
	if err != nil {
		return
	}
	if v, ok := parsePSS(b); ok {
		r.pss.Set(v)
	}
}

// maxEnviron bounds what is read of an environment, in bytes.
const maxEnviron = 64 << 10

func (w *slowReads) readPlace(r *slowRead) {
	f, err := w.peek.path(w.root).num(r.pid).str("/environ").open(0)
	if err != nil {
		return
	}
	defer f.Close() // opened for reading: nothing can be lost
	buf := make([]byte, maxEnviron)
	n := 0
	for n < len(buf) {
		k, err := f.Pread(buf[n:], int64(n))
		if err != nil || k <= 0 {
			break
		}
		n += k
	}
	step, task := parseStepEnv(buf[:n])
	r.step, r.task = keep("", step), task
}

// askSlowly completes what the snapshot is to show: PSS from time to time, and the
// step of those whose cgroup does not tell it.
func (j *JobProcs) askSlowly(boot int64) {
	pss := boot >= j.nextPSS
	if !pss && !j.unplaced() || !j.slow.free() {
		return
	}
	left := float64(pssTime)
	for _, i := range j.shown {
		p := &j.procs[i]
		if !p.placed {
			p.placed = true
			j.slow.list = append(j.slow.list, slowRead{pid: p.pid, start: p.start, place: true})
		}
		if cost := float64(p.rss*j.pageSize) * pssPerByte; pss && cost <= left {
			left -= cost
			j.slow.list = append(j.slow.list, slowRead{pid: p.pid, start: p.start})
		}
	}
	if pss {
		j.nextPSS = boot + int64(pssPause)
	}
	if len(j.slow.list) == 0 || !j.slow.run() {
		return
	}
	if pss {
		j.nextPSS = boot + int64(max(pssPause, time.Duration(float64(j.slow.took)/pssShare)))
	}
	for i := range j.slow.list {
		r := &j.slow.list[i]
		k, ok := j.at[r.pid]
		switch p := &j.procs[k]; {
		case !ok || p.start != r.start:
		case r.place:
			p.step, p.task = r.step, r.task
		default:
			p.pss = r.pss
		}
	}
}

func (j *JobProcs) unplaced() bool {
	for _, i := range j.shown {
		if !j.procs[i].placed {
			return true
		}
	}
	return false
}
