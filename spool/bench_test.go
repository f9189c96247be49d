package spool

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/resource-tracker/rt"
)

// writtenBytes is what this process gave to write(2) (/proc/self/io, wchar), which is what a commit
// costs.
func writtenBytes(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		if v, ok := bytes.CutPrefix(line, []byte("wchar: ")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("/proc/self/io has no wchar")
	return 0
}

// BenchmarkPut prints, in addition to the time, what a snapshot adds to the file and how much
// SQLite writes for it, log and checkpoints together.
func BenchmarkPut(b *testing.B) {
	for _, kind := range []struct {
		name        string
		cores, gpus int
		tasks       int
		devices     bool
	}{
		{"scalars", 0, 0, 0, false},
		{"cores64", 64, 0, 0, false},
		{"cores2", 2, 0, 0, false},
		{"devices", 0, 0, 0, true},
		{"gpus8", 0, 8, 0, true},
		{"tasks8", 0, 0, 8, false},
		{"all", 64, 8, 8, true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			w := mustCreate(b, Options{})
			m := newMachine(kind.cores, kind.gpus)
			if kind.tasks > 0 {
				m.withJob(kind.tasks)
			}
			next := m.next
			if !kind.devices {
				next = func() *rt.Snapshot { return withoutDevices(m.next()) }
			}
			if err := w.Put(next()); err != nil {
				b.Fatal(err)
			}
			empty := keptBytes(b, w.Path())
			written := writtenBytes(b)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if err := w.Put(next()); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if err := w.Flush(); err != nil {
				b.Fatal(err)
			}
			written = writtenBytes(b) - written
			if err := w.End(testRun()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(written)/float64(n), "written-B/op")
			b.ReportMetric(float64(keptBytes(b, w.Path())-empty)/float64(n), "kept-B/op")
		})
	}
}

// withoutDevices is a copy without the lists of devices.
func withoutDevices(s *rt.Snapshot) *rt.Snapshot {
	c := *s
	c.Nets, c.Disks, c.Mounts, c.GPUs, c.Fabrics, c.RemoteFS = nil, nil, nil, nil, nil, nil
	return &c
}

// keptBytes is the size of the database in pages that hold something.
func keptBytes(b *testing.B, path string) int64 {
	b.Helper()
	c, err := openConn(path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	pages, err := c.queryInt("PRAGMA page_count")
	if err != nil {
		b.Fatal(err)
	}
	size, err := c.queryInt("PRAGMA page_size")
	if err != nil {
		b.Fatal(err)
	}
	return pages * size
}

func BenchmarkRead(b *testing.B) {
	const rows = 20_000
	w := mustCreate(b, Options{})
	m := newMachine(16, 2)
	for range rows {
		if err := w.Put(m.next()); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		b.Fatal(err)
	}
	r := mustOpen(b, w.Path())
	for name, read := range map[string]func(context.Context, int64, int64) func(func(*rt.Snapshot, error) bool){
		"scalars": func(ctx context.Context, f, t int64) func(func(*rt.Snapshot, error) bool) {
			return r.Scalars(ctx, f, t)
		},
		"rates": func(ctx context.Context, f, t int64) func(func(*rt.Snapshot, error) bool) {
			return r.Rates(ctx, f, t)
		},
		"snapshots": func(ctx context.Context, f, t int64) func(func(*rt.Snapshot, error) bool) {
			return r.Snapshots(ctx, f, t)
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range read(b.Context(), 1, 0) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != rows {
					b.Fatal(fmt.Sprint(n, " rows"))
				}
			}
			b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkLife measures the fixed cost of a tracker's spool: a file is created, gets one
// snapshot and is ended.
func BenchmarkLife(b *testing.B) {
	dir := b.TempDir()
	m := newMachine(16, 0)
	s := m.next()
	run := testRun()
	for b.Loop() {
		run.Start = run.Start.Add(1e6)
		w, err := Create(dir, run, rt.Host{}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Put(s); err != nil {
			b.Fatal(err)
		}
		if err := w.End(run); err != nil {
			b.Fatal(err)
		}
	}
}
