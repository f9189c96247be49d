package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// A writer loses its lock between its two files, and another writer removes a run between the two.
// The run that the first writer added gets its samples in the next pass.
func TestRunWithoutItsSamples(t *testing.T) {
	w := newWorld()
	w.put("r1", 1, day, 5)
	w.put("r2", 2, day.Add(time.Minute), 5)
	write(t, w)
	w.put("r3", 3, day.Add(time.Hour), 7)
	first, second := w.lake(t), w.lake(t)
	first.FileBytes, second.FileBytes = 1<<20, 1<<20
	puts := 0
	reached, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w.beforePut = func() {
		puts++
		switch puts {
		case 2: // the first writer has put its samples
			w.remove("r2")
			go func() { _, err := second.Write(t.Context()); ended <- err }()
			<-reached
		case 4: // and the second one its own
			close(reached)
			<-release
		}
	}
	if _, err := first.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.beforePut = nil
	close(release)
	if err := <-ended; !errors.Is(err, site.ErrReplaced) {
		t.Fatalf("the second writer ended with %v", err)
	}
	count := func() (n int) {
		for _, s := range rows[sample](t, w, tableSamples) {
			if s.Name == w.runs["r3"].Name {
				n++
			}
		}
		return n
	}
	if list := rows[row](t, w, tableRuns); len(list) != 3 || count() != 0 || w.runs["r3"].Changes != 0 {
		t.Fatalf("the run that was added has %d samples of 7: %+v", count(), list)
	}
	write(t, w)
	complete(t, w)
	if done := write(t, w); done != (Totals{}) {
		t.Errorf("a pass without changes: %+v", done)
	}
}

// A run that lacks samples, and whose record is no longer stored, is tried once.
func TestRunWithoutSamplesAndRecord(t *testing.T) {
	w := newWorld()
	w.put("r1", 1, day, 5)
	w.put("r2", 2, day, 0)
	write(t, w)
	more := newWorld()
	more.put("r1", 1, day, 5)
	more.put("r2", 2, day, 9)
	write(t, more)
	file := objectName(tableRuns, PartitionOf("c1", day), 1)
	w.objects[file] = more.objects[file]
	w.runs["r2"].isLost = true
	w.put("r3", 3, day, 5)
	write(t, w)
	write(t, w)
	if done := write(t, w); done != (Totals{}) || w.runs["r2"].Changes != 0 {
		t.Errorf("%+v, %d changes", done, w.runs["r2"].Changes)
	}
}

// The same if that run has another name now, and another run of its node began in the same millisecond.
func TestRenamedRunWithoutSamplesAndRecord(t *testing.T) {
	w := newWorld()
	w.put("r1", 1, day, 5)
	w.put("r2", 2, day, 0)
	write(t, w)
	more := newWorld()
	more.put("r1", 1, day, 5)
	more.put("r2", 2, day, 9)
	write(t, more)
	file := objectName(tableRuns, PartitionOf("c1", day), 1)
	w.objects[file] = more.objects[file]
	w.put("r2", 3, day, 9).isLost = true
	w.put("r1", 1, day, 6)
	write(t, w)
	write(t, w)
	if done := write(t, w); done != (Totals{}) || w.runs["r1"].Changes+w.runs["r2"].Changes != 0 {
		t.Errorf("%+v, changes %d and %d", done, w.runs["r1"].Changes, w.runs["r2"].Changes)
	}
}

// A writer that has lost its lock removes no file of another writer. The file may have become
// empty, or a killed writer may have left it.
func TestLateWriterRemovesNothing(t *testing.T) {
	for name, begin := range map[string]func(w *world){
		"an empty file": func(w *world) {
			w.put("r1", 1, day, 5)
			write(t, w)
			w.remove("r1")
		},
		"samples of a killed writer": func(w *world) {
			w.put("r1", 1, day, 5)
			w.left = 1
			if _, err := w.lake(t).Write(t.Context()); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			w.left = -1
			w.remove("r1")
		},
	} {
		for put := range 2 {
			w := newWorld()
			begin(w)
			n := 0
			w.beforePut = func() {
				n++
				if n != put+1 {
					return
				}
				w.beforePut = nil
				w.put("r2", 2, day, 5)
				write(t, w)
				complete(t, w)
			}
			if _, err := w.lake(t).Write(t.Context()); !errors.Is(err, site.ErrReplaced) {
				t.Errorf("%s, PUT %d: %v", name, put, err)
			}
			complete(t, w)
			write(t, w)
			complete(t, w)
		}
	}
}

// A limit of a file that is less than the size of an empty table does not make each file full before its first run.
func TestFileHasAtLeastOneRun(t *testing.T) {
	w := newWorld()
	w.put("r1", 1, day, 5)
	w.put("r2", 2, day, 5)
	o := w.lake(t).Config
	o.FileBytes = 1
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Write(t.Context()); err != nil || done.Runs != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	complete(t, w)
}

// A file is full as soon as its pages are as large as its limit. That can be before the row group
// ends, and includes the old rows to copy.
func TestFileIsFullWithinARowGroup(t *testing.T) {
	l := newWorld().lake(t)
	next := &update{fresh: [][]site.Changed{{{}}}}
	r := &rewriting{Lake: l, update: next}
	var err error
	r.samples, err = newTable(io.Discard, l.samples.schema, l.samples.about, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.samples.columns {
		c.pageValues = sampleRows
	}
	if !r.hasNext(nil) {
		t.Error("there is no room in an empty file")
	}
	r.copied.samples, r.old.rowBytes = 1000, 20
	if r.hasNext(nil) {
		t.Error("there is room next to old rows of 20,000 bytes")
	}
	r.copied.samples = 0
	l.samples.begin(&rt.Run{})
	var s rt.Snapshot
	for i := range uint64(8 * sampleRows) {
		change(&s, i)
		if !l.samples.add(&s) {
			continue
		}
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if r.hasNext(nil) {
		t.Errorf("there is room next to pages of %d bytes", r.samples.size())
	}
}

// The records of several runs are decoded at the same time; what is not written is closed, and a panic is an error.
func TestDecodedAhead(t *testing.T) {
	w := newWorld()
	for n := range 20 {
		w.put(fmt.Sprintf("r%02d", n), uint64(n), day.Add(time.Duration(n)*time.Second), 10)
	}
	l := w.lake(t)
	var open, opened atomic.Int64
	l.Decode = func(ctx context.Context, id string) (*DecodedRun, error) {
		if id == "r19" {
			panic("a defect")
		}
		run, err := w.decode(ctx, id)
		open.Add(1)
		opened.Add(1)
		run.Close = func() error { open.Add(-1); return nil }
		return run, err
	}
	if _, err := l.Write(t.Context()); err == nil || !strings.Contains(err.Error(), "a defect") {
		t.Errorf("the pass ended with %v", err)
	}
	if open.Load() != 0 || opened.Load() != 19 {
		t.Errorf("of %d runs %d are open", opened.Load(), open.Load())
	}
	w.remove("r19")
	write(t, w)
	complete(t, w)
}
