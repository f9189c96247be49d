package collect

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

const (
	// budgetWindow is how long the recorder looks at its cost before it decides, and
	// budgetHaste the least of that where a window's allowance is spent before.
	budgetWindow = time.Minute
	budgetHaste  = 5 * time.Second
	// budgetRoom is the part of the budget below which something is taken back.
	budgetRoom = 0.4
	// budgetStretch is how often the interval is doubled at most.
	budgetStretch = 3
	// budgetPatience is how many windows with room are waited for at most.
	budgetPatience = 64
)

// budget keeps what the tracker costs within its share of a core. Each level up
// leaves out one of the dear sources, the dearest first, and then doubles the time
// between readings. After some time with room it goes down again, and the more
// often that proved wrong the longer it waits.
type budget struct {
	share float64              // of a core; 0: no bound
	used  func() time.Duration // CPU time of the tracker so far
	drop  []string             // sources in the order in which they are left out

	level    int
	began    int64 // Boot of the window's begin; 0 before the first
	before   time.Duration
	calm     int // windows with room in a row
	patience int // that it takes to go down
	tried    bool
}

// check is asked after each reading and returns by how much the level changed, and
// what part of a core was used over which time.
func (b *budget) check(boot int64) (change int, share float64, over time.Duration) {
	if b.share <= 0 {
		return 0, 0, 0
	}
	used := b.used()
	if b.began == 0 {
		b.began, b.before, b.patience = boot, used, 1
		return 0, 0, 0
	}
	over = time.Duration(boot - b.began)
	spent := used - b.before
	allowance := time.Duration(b.share * float64(budgetWindow))
	if over < budgetHaste || over < budgetWindow && spent <= allowance {
		return 0, 0, 0
	}
	b.began, b.before = boot, used
	share = float64(spent) / float64(over)
	return b.decide(share), share, over
}

func (b *budget) decide(share float64) (change int) {
	switch {
	case share > b.share:
		b.calm = 0
		if b.tried {
			b.patience = min(2*b.patience, budgetPatience)
		}
		b.tried = false
		if b.level < len(b.drop)+budgetStretch {
			b.level++
			return 1
		}
	case share < budgetRoom*b.share && b.level > 0:
		if b.calm++; b.calm >= b.patience {
			b.calm, b.tried = 0, true
			b.level--
			return -1
		}
	default:
		b.calm = 0
	}
	return 0
}

// factor is how many times longer than configured the time between readings is.
func (b *budget) factor() int { return 1 << max(b.level-len(b.drop), 0) }

// without says whether the source is left out.
func (b *budget) without(name string) bool {
	i := slices.Index(b.drop, name)
	return i >= 0 && i < b.level
}

// does says what the level means, for the ledger.
func (b *budget) does(level int) string {
	if level <= len(b.drop) {
		return "without " + b.drop[level-1]
	}
	return fmt.Sprintf("%d times the time between readings", 1<<(level-len(b.drop)))
}

// keepBudget looks at the tracker's cost after a reading, and tells the ledger what
// it does about it.
func (r *Recorder) keepBudget() {
	change, share, over := r.budget.check(r.snap.Boot)
	if change == 0 {
		return
	}
	e := rt.Event{Kind: "tracker", Name: "budget", Status: "over"}
	spent := fmt.Sprintf("%.2f %% of a core in %.0f s", 100*share, over.Seconds())
	if change > 0 {
		e.Detail = fmt.Sprintf("%s, more than %.2f %%: from snapshot %d on %s", spent, 100*r.budget.share, r.seq+1, r.budget.does(r.budget.level))
	} else {
		e.Status = "ok"
		e.Detail = fmt.Sprintf("%s, of %.2f %%: from snapshot %d on no longer %s", spent, 100*r.budget.share, r.seq+1, r.budget.does(r.budget.level+1))
	}
	if s, ok := r.o.Job.(Shedder); ok {
		s.Shed(r.budget.without(StepsName))
	}
	r.event(e)
}

// processTime is the CPU time of this process, all threads together.
func processTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
