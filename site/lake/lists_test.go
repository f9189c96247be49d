package lake

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// The lists of a batch of rows come from its own snapshots, whatever the batch before had.
func TestListsOfABatch(t *testing.T) {
	e := newSampleEncoder()
	column := indexOf(e.schema, "disks", "list", "element", "name")
	const rows = 10
	batch := func(name string, disks int) (count map[string]int) {
		count = map[string]int{}
		run := &rt.Run{}
		run.Node, run.Start = name, time.Unix(1, 0)
		e.begin(run)
		for i := range rows {
			s := &rt.Snapshot{Seq: int64(i + 1)}
			for range disks {
				s.Disks = append(s.Disks, rt.DiskReading{Name: "disk-of-" + name})
			}
			e.add(s)
		}
		w, err := newTable(io.Discard, e.schema, e.about, groupRows)
		if err != nil {
			t.Fatal(err)
		}
		n, err := e.flush(w.columns)
		if n != rows || err != nil {
			t.Errorf("batch %s has %d rows, want %d; %v", name, n, rows, err)
		}
		c := w.columns[column]
		for _, n := range c.page.texts {
			count[c.words.list[n]]++
		}
		lists := bytes.Count(c.page.repetitions, []byte{0})
		if lists != rows {
			t.Errorf("batch %s has the lists of %d rows, want %d", name, lists, rows)
		}
		return count
	}
	for _, tt := range []struct {
		name  string
		disks int
	}{{"a", 0}, {"b", 2}, {"c", 0}, {"d", 1}, {"e", 0}} {
		got := batch(tt.name, tt.disks)
		own := got["disk-of-"+tt.name]
		delete(got, "disk-of-"+tt.name)
		if own != rows*tt.disks || len(got) > 0 {
			t.Errorf("batch %s has %d disks of its own, want %d; of others: %v", tt.name, own, rows*tt.disks, got)
		}
	}
}
