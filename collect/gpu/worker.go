package gpu

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
)

const (
	// tooOld is how long a reading may have taken and still be handed out late.
	tooOld = 5 * time.Second
	// starting is how long a driver may need for its first answer before that is
	// called a failure: it wakes up GPUs that nobody uses.
	starting = 10 * time.Second
)

// driver asks one vendor's driver. Its methods may take for ever.
type driver interface {
	vendor() string
	// read adds the devices to r, which is empty.
	read(r *reading)
	close()
}

// worker makes all calls of one driver on a goroutine of its own, one after the
// other, so that a driver that hangs holds up nobody and is not called again
// meanwhile.
type worker struct {
	drv  driver
	ask  chan struct{} // closed to stop
	done chan struct{} // a reading is complete; one at most is
	gone chan struct{} // closed when the driver has been closed

	asked    bool  // and the answer was not yet taken notice of
	hung     error // what is said while it does not answer
	begun    time.Time
	answered bool

	mu    sync.Mutex
	last  reading // the newest complete one
	took  time.Duration
	fresh bool // last was not handed out
}

func newWorker(drv driver) *worker {
	w := &worker{drv: drv, ask: make(chan struct{}, 1), done: make(chan struct{}, 1), gone: make(chan struct{})}
	w.hung = fmt.Errorf("the %s driver does not answer (%w): its GPUs are recorded without values until it does; the kernel's log may say why",
		drv.vendor(), os.ErrDeadlineExceeded)
	go w.run()
	return w
}

func (w *worker) run() {
	defer close(w.gone)
	defer func() { _ = recover() }() // of closing: read has its own, and nobody needs the driver any more
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

// read reads once; a panic is the reading's failure.
func (w *worker) read(r *reading) {
	defer func() {
		if p := recover(); p != nil {
			r.usageShort, r.vramShort, r.processesShort = true, true, true
			r.fail(fmt.Errorf("reading the %s GPUs panicked: %v", w.drv.vendor(), p))
		}
	}()
	w.drv.read(r)
}

// begin asks for a reading, unless the driver still owes one.
func (w *worker) begin() {
	if w.asked {
		select {
		case <-w.done:
		default:
			return
		}
	}
	if w.begun.IsZero() {
		w.begun = time.Now()
	}
	w.asked = true
	w.ask <- struct{}{}
}

// finish waits for the reading and adds it to r. Where it is not there in time, the
// one that came too late for the reading before is the newest there is: a slow
// driver's values are one interval old, not absent. Without either the devices that
// are known are added without values.
func (w *worker) finish(p *waiting, r *reading) {
	if p.on(w.done) {
		w.asked = false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	from := len(r.devices)
	r.devices = append(r.devices, w.last.devices...)
	if w.fresh && w.took <= tooOld {
		w.fresh, w.answered = false, true
		r.energy = append(r.energy, w.last.energy...)
		r.processes = append(r.processes, w.last.processes...)
		r.details = append(r.details, w.last.details...)
		r.usageShort = r.usageShort || w.last.usageShort
		r.vramShort = r.vramShort || w.last.vramShort
		r.processesShort = r.processesShort || w.last.processesShort
		r.fail(w.last.err)
		return
	}
	for i := from; i < len(r.devices); i++ {
		r.devices[i] = identity(&r.devices[i])
	}
	r.usageShort, r.vramShort, r.processesShort, r.late = true, true, true, true
	if w.answered || time.Since(w.begun) > starting {
		r.fail(w.hung)
	}
}

// stop has the goroutine end once the driver lets it.
func (w *worker) stop() { close(w.ask) }

// identity is g without what is measured.
func identity(g *rt.GPUReading) rt.GPUReading {
	return rt.GPUReading{
		UUID: g.UUID, Name: g.Name, Type: g.Type, Host: g.Host,
		VRAMTotal: g.VRAMTotal, Cores: g.Cores, Detail: g.Detail,
	}
}

// waiting is one span of time that several waits share.
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

// on is true when c delivered or was closed before the time was over.
func (p *waiting) on(c <-chan struct{}) bool {
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
