package collect

import (
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// runClock is the time of a run: the wall clock at its start plus what the boot clock has counted
// since. The times of a run therefore never decrease. The end minus the start is the duration of
// the run, even if the wall clock is set during the run. The ledger records such a change.
type runClock struct {
	read  func() (wall, boot int64) // Options.Clock
	epoch int64                     // wall - boot at the start
}

func newRunClock(read func() (wall, boot int64)) runClock {
	wall, boot := read()
	return runClock{read, wall - boot}
}

// now returns the time of the run in nanoseconds since the epoch, the boot clock, and the
// lead of the wall clock over the run.
func (c *runClock) now() (at, boot int64, ahead time.Duration) {
	wall, boot := c.read()
	at = boot + c.epoch
	return at, boot, time.Duration(wall - at)
}

// clocks holds the clocks at a reading, for compareClocks at the next reading.
type clocks struct {
	ahead time.Duration // of the wall clock
	boot  int64
	mono  time.Time // stops while the machine sleeps
}

// minClockStep is the least difference between two clocks that is recorded. A clock
// that is only slewed (adjtimex(2)) differs by less than a thousandth.
const minClockStep = time.Second

// compareClocks records that the wall clock was set, or that the machine slept.
func (r *Recorder) compareClocks(boot int64, ahead time.Duration) {
	before := r.clocks
	r.clocks = clocks{ahead, boot, time.Now()}
	if before.boot == 0 {
		return
	}
	passed := time.Duration(boot - before.boot)
	least := max(minClockStep, passed/1000)
	if step := ahead - before.ahead; step.Abs() >= least {
		r.event(rt.Event{
			Kind: "tracker", Name: "clock", Status: "stepped",
			Detail: fmt.Sprintf("the wall clock was set by %+.3f s before snapshot %d; the times of the run do not follow it", step.Seconds(), r.seq+1),
		})
	}
	if slept := passed - r.clocks.mono.Sub(before.mono); slept >= least {
		r.event(rt.Event{
			Kind: "gap", Name: "suspend", Status: "slept",
			Detail: fmt.Sprintf("the node slept for %.3f s before snapshot %d", slept.Seconds(), r.seq+1),
		})
	}
}
