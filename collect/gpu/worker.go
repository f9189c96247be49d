package gpu

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// maxAge is the longest duration of a late reading that is still used.
	maxAge = 5 * time.Second
	// startTime is the time that a driver may need for its first answer without an error:
	// it initializes unused GPUs.
	startTime = 10 * time.Second
)

// driver reads one vendor's driver. Its methods may block for ever.
type driver interface {
	vendor() string
	// read adds the devices to r, which is empty.
	read(r *reading)
	close()
}

// worker makes all calls of one driver in one goroutine, one after the other. So a driver
// that hangs delays no reading and is not called again meanwhile.
type worker struct {
	drv  driver
	ask  chan struct{} // requests a reading; at most one is pending; closed to stop
	done chan struct{} // a reading is complete; at most one is pending
	gone chan struct{} // closed after the driver was closed

	asked    bool  // done was not received since the last request
	overdue  bool  // the last request belongs to an earlier reading
	hung     error // while the driver does not answer
	begun    time.Time
	answered bool

	mu    sync.Mutex
	last  reading // the newest complete one
	took  time.Duration
	fresh bool // last was not used yet
}

func newWorker(drv driver) *worker {
	w := &worker{drv: drv, ask: make(chan struct{}, 1), done: make(chan struct{}, 1), gone: make(chan struct{})}
	w.last.missing = true
	w.hung = fmt.Errorf("the %s driver does not answer (%w): its GPUs are recorded without values until it does; see the kernel's log",
		drv.vendor(), os.ErrDeadlineExceeded)
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.gone)
	defer func() { _ = recover() }() // of closing: read has its own, and the driver is no longer used
	defer w.drv.close()
	var r reading
	for range w.ask {
		r.reset()
		begun := time.Now()
		w.read(&r)
		w.mu.Lock()
		w.last, r = r, w.last
		w.took, w.fresh = time.Since(begun), true
		w.mu.Unlock()
		w.done <- struct{}{}
	}
}

// read reads once; a panic counts as an error.
func (w *worker) read(r *reading) {
	defer func() {
		if p := recover(); p != nil {
			r.missing, r.processesShort = true, true
			r.fail(fmt.Errorf("reading the %s GPUs panicked: %v", w.drv.vendor(), p))
		}
	}()
	w.drv.read(r)
}

// begin requests a reading, unless the last one is not complete.
func (w *worker) begin() {
	if w.asked {
		select {
		case <-w.done:
		default:
			w.overdue = true
			return
		}
	}
	w.overdue = false
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	w.asked = true
	w.ask <- struct{}{}
}

// needs is the time that the next answer may take, judged by the latest one.
func (w *worker) needs() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overdue {
		return 0
	}
	return min(2*w.took, maxSlowWait)
}

// finish waits for the reading and adds it to r. If the reading is not complete in time,
// finish adds the late one of the previous snapshot. So a slow driver's values are one
// interval old, not absent. If there is none, it adds the known devices without values. A
// driver that hangs delays only the first reading.
func (w *worker) finish(p *waiting, r *reading) {
	if !w.overdue && p.waitFor(w.done) {
		w.asked = false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	from := len(r.devices)
	r.devices = append(r.devices, w.last.devices...)
	r.missing = r.missing || w.last.missing
	if w.fresh && w.took <= maxAge {
		w.fresh, w.answered = false, true
		r.energy = append(r.energy, w.last.energy...)
		r.processes = append(r.processes, w.last.processes...)
		r.ended = append(r.ended, w.last.ended...)
		r.details = append(r.details, w.last.details...)
		r.processesShort = r.processesShort || w.last.processesShort
		r.fail(w.last.err)
		return
	}
	for i := from; i < len(r.devices); i++ {
		r.devices[i] = identity(&r.devices[i])
	}
	r.processesShort, r.late = true, true
	if w.answered || time.Since(w.begun) > startTime {
		r.fail(w.hung)
	}
}

// stop ends the goroutine after its current call of the driver.
func (w *worker) stop() { close(w.ask) }

// identity is g without measured values.
func identity(g *rt.GPUReading) rt.GPUReading {
	return rt.GPUReading{
		UUID: g.UUID, Name: g.Name, Type: g.Type, Host: g.Host,
		VRAMTotal: g.VRAMTotal, Cores: g.Cores, Detail: g.Detail,
	}
}

// waiting is a time limit that several waits share.
type waiting struct {
	timer *time.Timer
	over  bool
}

func (p *waiting) start(d time.Duration) {
	p.over = false
	if p.timer == nil {
		p.timer = time.NewTimer(d)
		return
	}
	p.timer.Reset(d)
}

// waitFor is true if c is received from or closed within the time.
func (p *waiting) waitFor(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
	}
	if p.over {
		return false
	}
	select {
	case <-c:
		return true
	case <-p.timer.C:
		p.over = true
		return false
	}
}
