package spool

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A sensor with a status that changes at every reading adds few lines to the ledger. They are the
// first ones, the last one, and the number of the others.
func TestRepeatedEventsAreCounted(t *testing.T) {
	w := mustCreate(t, Options{})
	const flips = 1234
	for i := range flips {
		w.Event(rt.Event{Time: time.Unix(int64(i), 0).UTC(), Kind: "sensor", Name: "x", Status: fmt.Sprint("s", i)})
	}
	w.Event(rt.Event{Kind: "job", Name: "x", Status: "ok"})
	if err := w.End(w.run); err != nil {
		t.Fatal(err)
	}
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil {
		t.Fatal(err)
	}
	stored, counted := 0, 0
	var last rt.Event
	for _, e := range events {
		switch {
		case e.Kind == "sensor":
			stored++
			last = e
		case e.Status == repeatedStatus:
			if _, err := fmt.Sscanf(e.Detail, "%d further", &counted); err != nil || e.Name != "sensor/x" {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
	if stored > maxRepeats+flips/maxRepeats+1 || stored+counted != flips || last.Status != fmt.Sprint("s", flips-1) {
		t.Errorf("%d stored, %d counted of %d, the last is %q", stored, counted, flips, last.Status)
	}
	if len(events) != stored+2 {
		t.Errorf("%d events", len(events))
	}
}

// The ledger of a killed tracker has every gap, and the report adds up the missed readings.
func TestEveryGapIsStored(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	const gaps = 3 * maxRepeats
	for i := range gaps {
		w.Event(rt.Event{Kind: "gap", Name: "schedule", Status: "missed", Detail: fmt.Sprint(i)})
		if i%50 != 0 {
			continue
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil || len(events) != gaps {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// Names that never repeat are bounded, too.
func TestNamesOfEventsAreBounded(t *testing.T) {
	w := mustCreate(t, Options{CommitRows: 1})
	for i := range 3 * maxNames {
		w.Event(rt.Event{Kind: "sensor", Name: fmt.Sprint(i)})
		if i%maxEvents == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.events.repeats); n > maxNames+1 {
		t.Errorf("%d names are in memory", n)
	}
}
