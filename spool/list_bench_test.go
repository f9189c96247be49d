package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// retained is a directory with so many runs that were delivered.
func retained(b *testing.B, runs int) string {
	b.Helper()
	dir := b.TempDir()
	w := mustCreate(b, Options{})
	m := newMachine(16, 1)
	for range 60 {
		if err := w.Put(m.next()); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		b.Fatal(err)
	}
	r := mustOpen(b, w.Path())
	if err := r.Delivery().MarkDelivered(time.Now()); err != nil {
		b.Fatal(err)
	}
	if err := r.Close(); err != nil {
		b.Fatal(err)
	}
	data, err := os.ReadFile(w.Path())
	if err != nil {
		b.Fatal(err)
	}
	for i := range runs {
		path := filepath.Join(dir, fmt.Sprintf("job-%d.db", i))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			b.Fatal(err)
		}
		st, err := os.Lstat(path)
		if err != nil {
			b.Fatal(err)
		}
		markDelivered(path, st, time.Now())
	}
	return dir
}

// BenchmarkDirectory is what a directory of retained runs costs: ls, the first look of a
// drain, and what a drain does at its end. Per file: divide by 200.
func BenchmarkDirectory(b *testing.B) {
	const runs = 200
	dir := retained(b, runs)
	for name, f := range map[string]func() (int, error){
		"list": func() (int, error) {
			list, err := List(dir)
			return len(list), err
		},
		"walk": func() (n int, err error) {
			err = Walk(dir, func(e *Entry) {
				if e.Err == nil && delivered(e) {
					n++
				}
			})
			return n, err
		},
		"collect": func() (int, error) {
			done, _, err := Collect(b.Context(), dir, GC{Retain: time.Hour, Bytes: 1 << 40, Now: time.Now()})
			return runs - len(done), err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if n, err := f(); n != runs || err != nil {
					b.Fatalf("%d of %d runs, %v", n, runs, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/runs, "us/run")
		})
	}
}
