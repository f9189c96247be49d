package tracker

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/ftdc"
)

// events is a ledger.
type events []rt.Event

func (e *events) Event(x rt.Event) { *e = append(*e, x) }

func TestFlightRecorder(t *testing.T) {
	dir := t.TempDir()
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Start: time.Unix(1772367180, 0)}}
	var ledger events
	f := NewFlightRecorder(dir, &run, 4<<20, &ledger)
	snapshot := rt.Snapshot{Seq: 1, Wall: time.Now().UnixNano(), Reason: rt.ReasonFirst}
	take := func() {
		if err := f.Put(&snapshot); err != nil {
			t.Fatal(err)
		}
		snapshot.Seq++
		snapshot.Wall += 2e9
		snapshot.Boot += 2e9
		snapshot.Job = rt.JobReading{Phase: rt.JobPresent, Pids: rt.Some[uint64](3)}
	}
	snapshot.Boot = 100e9
	take()
	f.Event(rt.Event{Kind: "gap"})
	f.Event(rt.Event{Kind: "sensor", Status: "failed"})
	f.Event(rt.Event{Kind: "sensor", Status: "ok"})
	take()
	f.Close()
	files, err := filepath.Glob(filepath.Join(dir, "flight", "job-12-n1-1772367180000-*.ftdc"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	dec := ftdc.NewDecoder(bytes.NewReader(text))
	got, n := map[string]float32{}, 0
	for _, err = dec.Next(); err == nil; _, err = dec.Next() {
		n++
		for i, name := range dec.Names() {
			got[name] = dec.Values()[i]
		}
	}
	if err != io.EOF || n != 2 {
		t.Fatalf("%d data, %v", n, err)
	}
	for name, want := range map[string]float32{
		"reading.seq": 2, "reading.interval_secs": 2, "job.phase": 2, "job.processes": 3,
		"ledger.gaps": 1, "ledger.sensors_failed": 1, "ledger.others": 1, "ledger.spool": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (recorded: %t), want %v", name, v, ok, want)
		}
	}
	if got["tracker.max_rss_kib"] < 1000 || got["go.goroutines"] < 1 || got["tracker.user_ms"]+got["tracker.system_ms"] <= 0 {
		t.Errorf("cost: %v", got)
	}
	if len(ledger) != 3 {
		t.Errorf("passed on: %v", ledger)
	}
	if NewFlightRecorder(dir, &run, 0, &ledger) != nil {
		t.Error("there is a recorder without room")
	}
}

// A record of a reading costs no memory, and a record that cannot be written is reported once.
func TestFlightRecorderAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	run := rt.Run{Identity: rt.Identity{Node: "n1"}}
	var ledger events
	f := NewFlightRecorder(dir, &run, 1<<30, &ledger)
	snapshot := rt.Snapshot{Wall: time.Now().UnixNano()}
	put := func() {
		snapshot.Seq++
		snapshot.Wall += 1e9
		if err := f.Put(&snapshot); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if n := testing.AllocsPerRun(100, put); n != 0 {
		t.Errorf("%v allocations for a reading", n)
	}
	f.Close()
	if len(ledger) != 0 {
		t.Errorf("events: %v", ledger)
	}

	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f = NewFlightRecorder(filepath.Join(dir, "file"), &run, 1<<30, &ledger)
	put()
	put()
	if len(ledger) != 1 || ledger[0].Name != "flight recorder" || !strings.Contains(ledger[0].Detail, "create the directory of the records") {
		t.Errorf("events: %v", ledger)
	}
}

func BenchmarkFlightRecorder(b *testing.B) {
	f := NewFlightRecorder(b.TempDir(), &rt.Run{Identity: rt.Identity{Node: "n1"}}, 4<<20, new(events))
	defer f.Close()
	snapshot := rt.Snapshot{Wall: time.Now().UnixNano()}
	b.ReportAllocs()
	for b.Loop() {
		snapshot.Seq++
		snapshot.Wall += 1e9
		if err := f.Put(&snapshot); err != nil {
			b.Fatal(err)
		}
	}
}
