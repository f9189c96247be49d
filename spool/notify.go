package spool

import (
	"time"

	"github.com/resource-tracker/rt"
)

// notifyEvery is the least time between two failures that Notify gets.
const notifyEvery = time.Minute

// notified is the state of Options.Notify.
type notified struct {
	now     int64 // Boot of the newest snapshot, in nanoseconds: a writer has no other clock
	at      int64 // time of the last failure that Notify got
	ever    bool  // whether there was one
	failing bool  // Notify got "failed" and no "ok" since
}

// notify passes an event of the spool to Notify. A failure within notifyEvery of the last one
// is passed later, if it lasts. An "ok" is passed only after a "failed".
func (w *Writer) notify(e rt.Event) {
	n := &w.notified
	if e.Status == "ok" {
		if !n.failing {
			return
		}
		n.failing = false
	} else {
		tooSoon := n.ever && n.now-n.at < int64(notifyEvery)
		if n.failing || tooSoon {
			return
		}
		*n = notified{now: n.now, at: n.now, ever: true, failing: true}
	}
	w.opts.Notify(e)
}
