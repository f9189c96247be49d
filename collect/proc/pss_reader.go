package proc

import (
	"fmt"
	"runtime"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
)

const (
	// slowWait is the maximum time that a reading waits for the pssReader.
	slowWait = 50 * time.Millisecond
	// pssPause is the least time between two rounds of PSS. pssShare is the fraction of a
	// core that they may use.
	pssPause = 2 * time.Minute
	pssShare = 0.0005
	// pssTime limits one round of PSS. The kernel takes about 4 ms per GiB of a process, and
	// the process may have to wait meanwhile to map memory. Processes that are too large for
	// pssTime are not read.
	pssTime    = 20 * time.Millisecond
	pssPerByte = 4e6 / float64(1<<30) // nanoseconds
)

// pssReader reads smaps_rollup and environ in a goroutine. For these files the
// kernel takes the mmap lock of the process. A process that hangs on a dead file server can
// hold it for hours. A reading waits for the goroutine at most the time wait. In one list,
// PSS is read for at most the time most. A pssReader with these fields is ready to use.
type pssReader struct {
	root   string
	wait   time.Duration
	most   time.Duration
	hasCPU bool // most and took are CPU time; otherwise they are elapsed time

	done chan struct{} // closed when the goroutine no longer uses what follows; nil before the first list

	list    []slowRead
	took    time.Duration
	fault   error  // a panic of the goroutine
	environ []byte // scratch
	peek    peek
}

// slowRead is a process to read, and the result.
type slowRead struct {
	pid    int
	start  uint64
	locate bool // its step and task, else its PSS

	pss  rt.Opt[uint64]
	step string
	task rt.Opt[uint64]
}

// isDone reports whether a goroutine has closed done, or has not been started.
func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return done == nil
	}
}

// failed returns the error of the lists so far, once the goroutine has finished.
func (r *pssReader) failed() error {
	if !isDone(r.done) {
		return nil
	}
	return r.fault
}

// free empties the list. It returns false if the goroutine still uses the list.
func (r *pssReader) free() bool {
	if !isDone(r.done) {
		return false
	}
	r.list = r.list[:0]
	return true
}

// run reads the list. It returns true if the goroutine finished in time.
func (r *pssReader) run() bool {
	r.done = make(chan struct{})
	go r.readList(r.done)
	select {
	case <-r.done:
		return true
	case <-time.After(r.wait):
		return false
	}
}

func (r *pssReader) readList(done chan<- struct{}) {
	defer close(done)
	defer recovery.Handle(func(err error) { // only the results of this list are lost
		r.fault = fmt.Errorf("read PSS and environments of processes: %w", err)
		r.list = r.list[:0]
	})
	if r.hasCPU { // of this thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	began := r.clock()
	for i := range r.list {
		if p := &r.list[i]; p.locate {
			r.readStep(p)
		} else if r.clock()-began < r.most {
			r.readPSS(p)
		}
	}
	r.took = r.clock() - began
}

// clock returns the time since an arbitrary moment.
func (r *pssReader) clock() time.Duration {
	if r.hasCPU {
		return collect.ThreadTime()
	}
	return time.Since(programStart)
}

var programStart = time.Now()

func (r *pssReader) readPSS(p *slowRead) {
	b, err := r.peek.path(r.root).num(p.pid).str("/smaps_rollup").read()
	if err != nil {
		return
	}
	if v, ok := parsePSS(b); ok {
		p.pss.Set(v)
	}
}

func (r *pssReader) readStep(p *slowRead) {
	text, err := environ.ReadProcess(r.root, p.pid, r.environ)
	if err != nil {
		return
	}
	r.environ = text
	p.step, p.task = stepOf(environ.Parse(text))
}

// stepOf returns the step and task of a process by its environment.
func stepOf(env environ.Env) (step string, task rt.Opt[uint64]) {
	step = env.Step()
	if n, ok := env.Number("SLURM_LOCALID").Get(); ok && step != "" && n < 1<<31 {
		task.Set(n)
	}
	return step, task
}
