package spool

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

func records1(t *testing.T, r *Reader, source string) (list []rt.ForeignReport) {
	t.Helper()
	for rec, err := range r.Records(t.Context(), source) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

func TestRecordsComeBackAsTheyCame(t *testing.T) {
	w := mustCreate(t, Options{})
	want := []rt.ForeignReport{
		{Time: 1_700_000_000_000_001_000, Source: "powerapi", Body: []byte(`{"power": 12.5, "target": "ü"}`)},
		{Time: 1_700_000_000_000_002_000, Source: "gempba", Body: []byte(`[]`)},
		{Time: 1_700_000_000_000_003_000, Source: "powerapi", Body: []byte(`"` + strings.Repeat("x", commitRecords) + `"`)},
	}
	body := []byte(`{"power": 12.5, "target": "ü"}`)
	for i, rec := range want {
		if i == 0 {
			rec.Body = body
		}
		if err := w.Record(rec); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			clear(body) // it is the caller's
		}
	}
	live := mustOpen(t, w.Path())
	if diff := cmp.Diff(want, records1(t, live, "")); diff != "" {
		t.Errorf("after %d bytes nothing was committed by itself:\n%s", commitRecords, diff)
	}
	if err := w.Record(rt.ForeignReport{Source: "gempba", Body: make([]byte, maxRecord+1)}); err == nil || !strings.Contains(err.Error(), "gempba") {
		t.Errorf("a record that is too large: %v", err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	if diff := cmp.Diff(want[1:2], records1(t, r, "gempba")); diff != "" {
		t.Error(diff)
	}
	for range r.Records(t.Context(), "") {
		break
	}
	for at, n := range map[int64]int{want[0].Time - 1000: 0, want[0].Time: 1, want[2].Time - 1: 1, want[2].Time: 2} {
		list, err := r.RecordsBefore("powerapi", at, 5)
		if err != nil || len(list) != n || n > 0 && cmp.Diff(want[2*(n-1)], list[0]) != "" {
			t.Errorf("before %d: %d records, %v", at, len(list), err)
		}
	}
	if list, err := r.RecordsBefore("powerapi", want[2].Time, 1); err != nil || len(list) != 1 || list[0].Time != want[2].Time {
		t.Errorf("the newest: %v, %v", list, err)
	}
	if err := w.Record(want[0]); err == nil {
		t.Error("a record was taken after the end")
	}
}

// Records wait in memory, in bounds, while the disk refuses, and the ledger says
// how many there was no room for.
func TestRecordsWaitForTheDisk(t *testing.T) {
	w := mustCreate(t, Options{})
	if err := w.Put(newMachine(1, 0).next()); err != nil {
		t.Fatal(err)
	}
	if err := w.db.exec("PRAGMA query_only = 1"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := w.Record(rt.ForeignReport{Time: 1000, Source: "gempba", Body: make([]byte, maxRecord/2)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.db.exec("PRAGMA query_only = 0"); err != nil {
		t.Fatal(err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	if n := len(records1(t, r, "")); n != 4 {
		t.Errorf("%d records, want the 4 that fit into %d bytes", n, maxRecords)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range events {
		found = found || strings.HasPrefix(e.Detail, "1 reports of other programs were dropped")
	}
	if !found {
		t.Errorf("the ledger does not have the dropped record: %v", events)
	}
}

// Reports that come later are kept with a run that has ended, each once.
func TestAddRecords(t *testing.T) {
	w := mustCreate(t, Options{})
	list := []rt.ForeignReport{
		{Time: 1_700_000_000_000_001_000, Source: "powerapi", Body: []byte(`{"power":1}`)},
		{Time: 1_700_000_000_000_001_000, Source: "powerapi", Body: []byte(`{"power":2}`)},
	}
	if err := w.Record(list[0]); err != nil {
		t.Fatal(err)
	}
	entry := rt.Event{Kind: "tracker", Name: "import", Status: "ok"}
	live := mustOpen(t, w.Path())
	if n, err := live.AddRecords(list, entry); n != 0 || !errors.Is(err, ErrLive) {
		t.Errorf("while the tracker lives: %d, %v", n, err)
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for i, want := range []int{1, 0} {
		if n, err := r.AddRecords(append(list, list[1]), entry); n != want || err != nil {
			t.Errorf("time %d: %d added, %v", i+1, n, err)
		}
	}
	if diff := cmp.Diff(list, records1(t, r, "")); diff != "" {
		t.Error(diff)
	}
	if events, err := r.Events(); err != nil || len(events) != 1 {
		t.Errorf("%v, %+v", err, events)
	}
}

// Two that import the same file at one time keep each report once. One that waits longer than
// busyTimeoutEnded for the other starts again, as a user does.
func TestAddRecordsAtOneTime(t *testing.T) {
	w := mustCreate(t, Options{})
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	var added [2]int
	for round := range 10 {
		var list []rt.ForeignReport
		for i := range 50 {
			list = append(list, rt.ForeignReport{Time: int64(i) * 1000, Source: "powerapi", Body: fmt.Appendf(nil, `{"power":%d}`, 100*round+i)})
		}
		var both sync.WaitGroup
		for i := range added {
			r := mustOpen(t, w.Path())
			both.Go(func() {
				n, err := r.AddRecords(list, rt.Event{Kind: "tracker", Name: "import", Status: "ok"})
				for busy(err) {
					n, err = r.AddRecords(list, rt.Event{Kind: "tracker", Name: "import", Status: "ok"})
				}
				added[i] += n
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	if n := len(records1(t, mustOpen(t, w.Path()), "")); n != 500 || added[0]+added[1] != 500 {
		t.Errorf("%d are kept, %v were added, of 500", n, added)
	}
}
