package top

import (
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// spooled writes a run of snapshots that has ended, and returns its file.
func spooled(t *testing.T, dir string, run rt.Run, snapshots []rt.Snapshot) string {
	t.Helper()
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range snapshots {
		if err := w.Put(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	endRun(t, w, run, len(snapshots))
	return w.Path()
}

// listed returns the one job of a directory, and its row.
func listed(t *testing.T, dir string) (Watched, string) {
	t.Helper()
	var out strings.Builder
	f, err := Print(t.Context(), &Spooled{Dir: dir, Now: func() time.Time { return sampleNow }}, Options{Name: "rt-spool top", Zone: time.UTC, At: -1, All: true}, &out, 160)
	if err != nil || len(f.Jobs) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return f.Jobs[0], lines[len(lines)-1]
}

// The clock of an import counts from its first reading, which is at 0.
func TestRunThatBeginsAtZero(t *testing.T) {
	dir, run := t.TempDir(), sampleRun(12)
	var list []rt.Snapshot
	for i := range 3 {
		s := sampleSnapshot(i)
		s.Boot = int64(i) * 300e9
		s.Job.CPUUsage = rt.Some(uint64(i) * 300e6)
		list = append(list, s)
	}
	path := spooled(t, dir, run, list)
	if j, _ := listed(t, dir); j.MeanCores != rt.Some(1.0) {
		t.Errorf("the list has a mean of %v cores, want 1", j.MeanCores)
	}
	f, err := File(path).Read(t.Context(), Wanted{Open: path, At: -1, Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := f.Open; d.Last != 600*time.Second || d.At != d.Last || d.Job.MeanCores != rt.Some(1.0) {
		t.Errorf("%v of %v, mean %v; want 10m0s of 10m0s, mean 1", d.At, d.Last, d.Job.MeanCores)
	}
}

// A job that has ended is listed with its peak memory, not with the memory of its last reading.
func TestListShowsPeakOfEndedJobs(t *testing.T) {
	for name, kernel := range map[string]bool{"kernel": true, "readings": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var list []rt.Snapshot
			for i := range 2 * listWindow {
				s := sampleSnapshot(i)
				s.Job.MemCurrent, s.Job.MemPeak = rt.Some[uint64](1<<20), rt.None[uint64]()
				if i == 3 {
					s.Job.MemCurrent.Set(8 << 30)
				}
				if kernel {
					s.Job.MemPeak.Set(8 << 30)
				}
				list = append(list, s)
			}
			spooled(t, dir, sampleRun(12), list)
			j, row := listed(t, dir)
			if j.Peak != rt.Some[uint64](8<<30) || j.Memory != rt.Some[uint64](1<<20) {
				t.Errorf("peak %v, at the last reading %v", j.Peak, j.Memory)
			}
			if !strings.Contains(row, " 8.0G ") || !strings.Contains(row, " 50.0 ") {
				t.Errorf("the row has neither the peak nor its part of the limit:\n%s", row)
			}
		})
	}
}

func TestNumbersInTextsAreSortedAsNumbers(t *testing.T) {
	want := []string{"", "1", "2", "12", "12_3", "12_20", "16", "020", "n2", "n10", "x"}
	for i := range want {
		for k := range want {
			if d := compare(want[i], want[k]); (d < 0) != (i < k) || (d > 0) != (i > k) {
				t.Errorf("compare(%q, %q) = %d", want[i], want[k], d)
			}
		}
	}
}

// The mark of the sorted column does not cut its title.
func TestSortedTitleIsWhole(t *testing.T) {
	p := jobsPage(&Frame{Jobs: []Watched{{Run: &rt.Run{}}}}, brush{})
	for i, c := range p.columns {
		o := order{column: i}
		if line := p.titles(p.layout(p.rows, 1000, o), o); !strings.Contains(line, "*"+c.title) {
			t.Errorf("%q has no *%s", line, c.title)
		}
	}
}
