package spool

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// A sensor that changes its status at each reading would fill the ledger, and with it the quota of
// the run. Of one kind and name the first maxRepeats events are stored, then one in maxRepeats, and
// the last one with a count of those that were left out. Gaps count missed readings, and the count at
// the end is lost with a killed tracker: far more of them are stored, as many as Events can read.
const (
	maxRepeats = 100
	maxGaps    = 100_000
	maxNames   = 1000 // further ones are counted together
)

// repeatedStatus marks the count. Its name is "kind/name" of the events.
const repeatedStatus = "repeated"

type eventName struct{ kind, name string }

// repeats counts the events of one kind and name.
type repeats struct {
	n, leftOut int
	last       rt.Event
	isStored   bool // last
}

// isRepeated counts an event, and reports whether it is left out.
func (w *Writer) isRepeated(e *rt.Event) bool {
	of := eventName{e.Kind, e.Name}
	r := w.repeats[of]
	if r == nil && len(w.repeats) >= maxNames {
		of = eventName{"spool", "other"}
		r = w.repeats[of]
	}
	if r == nil {
		r = &repeats{}
		if w.repeats == nil {
			w.repeats = map[eventName]*repeats{}
		}
		w.repeats[of] = r
		w.names = append(w.names, of)
	}
	r.n++
	first := maxRepeats
	if e.Kind == "gap" {
		first = maxGaps
	}
	r.isStored = r.n <= first || r.n%maxRepeats == 0
	r.last = *e
	if !r.isStored {
		r.leftOut++
	}
	return !r.isStored
}

// noteRepeats adds the last events that were left out, and the counts, at the end.
func (w *Writer) noteRepeats() {
	for _, of := range w.names {
		r := w.repeats[of]
		if r.leftOut == 0 {
			continue
		}
		if !r.isStored {
			w.events = append(w.events, r.last)
			r.isStored = true
			r.leftOut--
		}
		if r.leftOut > 0 {
			w.events = append(w.events, rt.Event{
				Time: r.last.Time, Kind: "spool", Name: of.kind + "/" + of.name, Status: repeatedStatus,
				Detail: fmt.Sprintf("%d further events are left out of the ledger", r.leftOut),
			})
		}
		r.leftOut = 0
	}
}
