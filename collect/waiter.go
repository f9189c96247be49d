package collect

import "time"

// Waiter waits for the time of a recorder's next reading.
type Waiter interface {
	// Wait returns at the time until, or earlier after Wake.
	Wait(until time.Time)
	// Wake ends the present Wait or, if there is none, the next one. Any goroutine may call it.
	Wake()
}

// timerWaiter waits for a timer of the runtime.
type timerWaiter struct {
	timer *time.Timer
	woken chan struct{} // holds at most one call of Wake
}

func newTimerWaiter() *timerWaiter { return &timerWaiter{woken: make(chan struct{}, 1)} }

// Wait implements Waiter.
func (w *timerWaiter) Wait(until time.Time) {
	if w.timer == nil {
		w.timer = time.NewTimer(time.Until(until))
	} else {
		w.timer.Reset(time.Until(until))
	}
	defer w.timer.Stop()
	select {
	case <-w.timer.C:
	case <-w.woken:
	}
}

// Wake implements Waiter.
func (w *timerWaiter) Wake() {
	select {
	case w.woken <- struct{}{}:
	default: // a call is pending
	}
}
