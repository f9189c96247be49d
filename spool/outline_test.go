package spool

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// outlined writes a run of so many snapshots.
func outlined(t testing.TB, snapshots int64) *Reader {
	t.Helper()
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Start: time.Unix(1000, 0)}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := Create(t.TempDir(), run, rt.Host{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range snapshots {
		s := rt.Snapshot{Seq: n + 1, Boot: (n + 1) * 1e10, Wall: (n + 1) * 1e10}
		s.Job = rt.JobReading{Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(n) * 7e6), MemPeak: rt.Some(uint64(n) << 20), MemCurrent: rt.Some(uint64(n) << 19)}
		s.GPUs = []rt.GPUReading{{UUID: "gpu", Utilization: rt.Some(float64(n % 100))}}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// An outline has the first two snapshots, the last one and equal steps, each as Usage has it. Of a short run it has all.
func TestOutline(t *testing.T) {
	for _, tt := range []struct {
		snapshots int64
		want      string
	}{
		{1, "[1]"}, {2, "[1 2]"}, {9, "[1 2 3 4 5 6 7 8 9]"}, {25, "[1 2 6 11 16 21 25]"}, {26, "[1 2 6 11 16 21 26]"}, {1000, "[1 2 201 401 601 801 1000]"},
	} {
		r := outlined(t, tt.snapshots)
		var seqs []int64
		for s, err := range r.Outline(t.Context(), 5) {
			if err != nil {
				t.Fatal(err)
			}
			seqs = append(seqs, s.Seq)
			for all, err := range r.Usage(t.Context(), s.Seq, s.Seq) {
				isSame := err == nil && all.Job == s.Job && len(s.GPUs) == 1 && s.GPUs[0].Utilization == all.GPUs[0].Utilization
				if !isSame {
					t.Errorf("snapshot %d: %+v, want %+v, %v", s.Seq, s, all, err)
				}
			}
		}
		if got := fmt.Sprint(seqs); got != tt.want {
			t.Errorf("%d snapshots: %s, want %s", tt.snapshots, got, tt.want)
		}
	}
}

// BenchmarkOutline reads a run of ten days for a list.
func BenchmarkOutline(b *testing.B) {
	r := outlined(b, 86_400)
	for name, most := range map[string]int64{"outline": 300, "all": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range r.Outline(b.Context(), most) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
