package spool

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// A sensor that changes its status at each reading would fill the ledger and use up the quota of
// the run. Therefore, of the events with the same kind and name, the ledger stores the first
// maxRepeats and then one in maxRepeats. At the end of the run it stores the last event, and the
// number of events that were left out.
//
// A gap counts missed readings, and a killed tracker stores no number at the end. So the limit of
// gaps is higher: as many as Events can read.
const (
	maxRepeats = 100
	maxGaps    = 100_000
	maxNames   = 1000 // kinds and names; the events of further ones are counted together
)

// repeatedStatus is the status of the event with the number of events that were left out. The name
// of this event is "kind/name" of the others.
const repeatedStatus = "repeated"

// maxEvents limits the number of events in memory while writes to the disk fail.
const maxEvents = 128

// pendingEvents are the events that are not committed yet.
type pendingEvents struct {
	list    []rt.Event
	unkept  int // number of events that were dropped because of maxEvents
	repeats map[eventName]*repeats
	names   []eventName // the keys of repeats, in the order in which they were added
}

// addEvent adds an event to the next commit.
func (p *pendingEvents) addEvent(e rt.Event) {
	if p.isRepeated(&e) {
		return
	}
	if len(p.list) >= maxEvents {
		p.unkept++
		return
	}
	p.list = append(p.list, e)
}

type eventName struct{ kind, name string }

// repeats counts the events of one kind and name.
type repeats struct {
	n, leftOut int
	last       rt.Event
	isStored   bool // whether last is stored
}

// isRepeated counts an event, and reports whether it is left out.
func (p *pendingEvents) isRepeated(e *rt.Event) bool {
	of := eventName{e.Kind, e.Name}
	r := p.repeats[of]
	if r == nil && len(p.repeats) >= maxNames {
		of = eventName{"spool", "other"}
		r = p.repeats[of]
	}
	if r == nil {
		r = &repeats{}
		if p.repeats == nil {
			p.repeats = map[eventName]*repeats{}
		}
		p.repeats[of] = r
		p.names = append(p.names, of)
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

// addRepeats adds the events for the end of the run. For each kind and name it adds the last
// event, if it was left out, and the number of the others.
func (p *pendingEvents) addRepeats() {
	for _, of := range p.names {
		r := p.repeats[of]
		if r.leftOut == 0 {
			continue
		}
		if !r.isStored {
			p.list = append(p.list, r.last)
			r.isStored = true
			r.leftOut--
		}
		if r.leftOut > 0 {
			p.list = append(p.list, rt.Event{
				Time: r.last.Time, Kind: "spool", Name: of.kind + "/" + of.name, Status: repeatedStatus,
				Detail: fmt.Sprintf("%d further events are left out of the ledger", r.leftOut),
			})
		}
		r.leftOut = 0
	}
}
