package spool

import (
	"time"

	"github.com/resource-tracker/rt"
)

// tellEvery is how far the beginnings of two failures that Notify is told of are
// apart at least.
const tellEvery = time.Minute

// toldOf is what Notify knows.
type toldOf struct {
	now     int64 // Boot of the newest snapshot, in nanoseconds: a writer has no other clock
	at      int64 // when Notify was last told of a failure
	ever    bool  // that was so
	failing bool  // Notify was told "failed", and not "ok" since
}

// tell passes an event of the spool on. A failure is kept back while the last one
// that was told is too young, and told later if it lasts; "ok" goes only to who
// was told "failed".
func (w *Writer) tell(e rt.Event) {
	if e.Status == "ok" {
		if !w.told.failing {
			return
		}
		w.told.failing = false
	} else {
		if w.told.failing || w.told.ever && w.told.now-w.told.at < int64(tellEvery) {
			return
		}
		w.told = toldOf{now: w.told.now, at: w.told.now, ever: true, failing: true}
	}
	w.opts.Notify(e)
}
