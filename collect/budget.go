package collect

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

const (
	// budgetWindow is the time over which the recorder measures its CPU use before it
	// changes the level. If it uses the CPU time of a whole window earlier, the level
	// changes earlier, but not before budgetMinWindow.
	budgetWindow    = time.Minute
	budgetMinWindow = 5 * time.Second
	// budgetLow is the fraction of the budget below which the level is lowered.
	budgetLow = 0.4
	// budgetStretch is the maximum number of times that the interval is doubled.
	budgetStretch = 3
	// budgetMaxWait is the maximum number of consecutive windows below budgetLow that
	// are required to lower the level.
	budgetMaxWait = 64
)

// budget keeps the CPU use of the tracker within its share of a core. It raises a level
// when the use is too high. Each of the first levels skips one more source of drop; each
// further level doubles the time between readings. After wait windows with a low use the
// level is lowered. If the use is then too high again, wait doubles.
type budget struct {
	share float64              // of a core; 0 for no limit
	used  func() time.Duration // CPU time of the tracker so far
	drop  []string             // sources in the order in which they are skipped

	level   int
	began   int64         // Boot time of the start of the window; 0 before the first window
	before  time.Duration // CPU time at the start of the window
	low     int           // consecutive windows below budgetLow
	wait    int           // number of such windows after which the level is lowered
	lowered bool          // the last change was downwards
}

// check returns the change of the level (-1, 0 or 1), the share of a core that was used,
// and the time of the measurement.
func (b *budget) check(boot int64) (change int, share float64, over time.Duration) {
	if b.share <= 0 {
		return 0, 0, 0
	}
	used := b.used()
	if b.began == 0 {
		b.began, b.before, b.wait = boot, used, 1
		return 0, 0, 0
	}
	over = time.Duration(boot - b.began)
	spent := used - b.before
	allowance := time.Duration(b.share * float64(budgetWindow))
	isMeasured := over >= budgetWindow || spent > allowance
	if over < budgetMinWindow || !isMeasured {
		return 0, 0, 0
	}
	b.began, b.before = boot, used
	share = float64(spent) / float64(over)
	return b.decide(share), share, over
}

func (b *budget) decide(share float64) (change int) {
	switch {
	case share > b.share:
		b.low = 0
		if b.lowered {
			b.wait = min(2*b.wait, budgetMaxWait)
		}
		b.lowered = false
		if b.level < len(b.drop)+budgetStretch {
			b.level++
			return 1
		}
	case share < budgetLow*b.share && b.level > 0:
		b.low++
		if b.low >= b.wait {
			b.low, b.lowered = 0, true
			b.level--
			return -1
		}
	default:
		b.low = 0
	}
	return 0
}

// factor returns the factor by which the configured time between readings is multiplied.
func (b *budget) factor() int { return 1 << max(b.level-len(b.drop), 0) }

// skips reports whether the source is skipped.
func (b *budget) skips(name string) bool {
	i := slices.Index(b.drop, name)
	return i >= 0 && i < b.level
}

// effect returns the description of a level for the ledger.
func (b *budget) effect(level int) string {
	if level <= len(b.drop) {
		return "without " + b.drop[level-1]
	}
	return fmt.Sprintf("%d times the time between readings", 1<<(level-len(b.drop)))
}

// keepBudget checks the tracker's cost after a reading and records a change of level.
func (r *Recorder) keepBudget() {
	change, share, over := r.budget.check(r.snap.Boot)
	if change == 0 {
		return
	}
	e := rt.Event{Kind: "tracker", Name: "budget", Status: "over"}
	spent := fmt.Sprintf("%.2f %% of a core in %.0f s", 100*share, over.Seconds())
	if change > 0 {
		e.Detail = fmt.Sprintf("%s, more than %.2f %%: from snapshot %d on %s", spent, 100*r.budget.share, r.seq+1, r.budget.effect(r.budget.level))
	} else {
		e.Status = "ok"
		e.Detail = fmt.Sprintf("%s, of %.2f %%: from snapshot %d on no longer %s", spent, 100*r.budget.share, r.seq+1, r.budget.effect(r.budget.level+1))
	}
	if s, ok := r.o.Job.(StepSkipper); ok {
		s.SkipSteps(r.budget.skips(StepsName))
	}
	r.event(e)
}

// ProcessTime returns the CPU time of this process, all threads together.
func ProcessTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

// ThreadTime returns the CPU time of the calling thread.
func ThreadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// clock reads a clock of clock_gettime(2).
func clock(id int32) time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(id, &t) // fails for an unknown clock only
	return time.Duration(t.Nano())
}
