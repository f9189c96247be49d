package collect

import (
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// clocks are the three clocks at a reading. Intervals and schedules never use the
// wall clock, so that setting it by an hour changes no rate; the ledger records it.
type clocks struct {
	wall, boot int64
	mono       time.Time // stops while the machine sleeps
}

// minClockStep is the least difference between two clocks that is recorded. A clock
// that is only slewed (adjtimex(2)) differs by less than a thousandth.
const minClockStep = time.Second

// compareClocks records that the wall clock was set, or that the machine slept.
func (r *Recorder) compareClocks(s *rt.Snapshot) {
	before := r.clocks
	r.clocks = clocks{wall: s.Wall, boot: s.Boot, mono: time.Now()}
	if before.boot == 0 {
		return
	}
	passed := time.Duration(s.Boot - before.boot)
	least := max(minClockStep, passed/1000)
	if step := time.Duration(s.Wall-before.wall) - passed; step.Abs() >= least {
		r.event(rt.Event{
			Kind: "tracker", Name: "clock", Status: "stepped",
			Detail: fmt.Sprintf("the wall clock was set by %+.3f s before snapshot %d; intervals are those of the boot clock", step.Seconds(), r.seq+1),
		})
	}
	if slept := passed - r.clocks.mono.Sub(before.mono); slept >= least {
		r.event(rt.Event{
			Kind: "gap", Name: "suspend", Status: "slept",
			Detail: fmt.Sprintf("the node slept for %.3f s before snapshot %d", slept.Seconds(), r.seq+1),
		})
	}
}
