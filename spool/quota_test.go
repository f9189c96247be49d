package spool

import (
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
)

// scalarsOf is a copy without devices.
func scalarsOf(s *rt.Snapshot) *rt.Snapshot {
	return &rt.Snapshot{Seq: s.Seq, Wall: s.Wall, Boot: s.Boot, Reason: s.Reason, Node: s.Node, Job: s.Job, GPU: s.GPU, Tree: s.Tree,
		CPUs: append([]rt.CPUReading(nil), s.CPUs...)}
}

// lastValues returns the last value of each column.
func lastValues(t *testing.T, path string) map[string]driver.Value {
	t.Helper()
	r := mustOpen(t, path)
	defer r.Close()
	out := map[string]driver.Value{}
	for _, c := range figureColumns(new(rt.Snapshot)) {
		row, err := r.db.query("SELECT " + c.name + " FROM snapshot WHERE " + c.name + " IS NOT NULL ORDER BY seq DESC LIMIT 1")
		if err != nil {
			t.Fatal(err)
		}
		if row != nil {
			out[c.name] = row[0]
		}
	}
	return out
}

// writeBoth writes the same snapshots with a quota and without, and ends both runs.
func writeBoth(t *testing.T, quota int64, list []*rt.Snapshot) (small, large *Reader) {
	t.Helper()
	paths := [2]string{}
	for i, opts := range []Options{{QuotaRun: quota}, {}} {
		w := mustCreate(t, opts)
		for _, s := range list {
			if err := w.Put(s); err != nil {
				t.Fatal(err)
			}
			if w.quota.err != nil {
				t.Fatal(w.quota.err)
			}
		}
		if err := w.End(testRun()); err != nil {
			t.Fatal(err)
		}
		paths[i] = w.Path()
	}
	a, b := lastValues(t, paths[0]), lastValues(t, paths[1])
	for name := range a {
		if a[name] != b[name] {
			t.Errorf("the last %s is %v, and %v where nothing was thinned", name, a[name], b[name])
		}
	}
	small, large = mustOpen(t, paths[0]), mustOpen(t, paths[1])
	for _, p := range small.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	return small, large
}

// forget leaves out any field or device now and then.
func forget(rng *rand.Rand, s *rt.Snapshot) {
	for _, p := range optFields(s) {
		if rng.IntN(4) == 0 {
			p.Clear()
		}
	}
	if rng.IntN(20) == 0 {
		s.Node.CPU.Clear()
		s.CPUs = nil
		s.Nets = s.Nets[1:]
	}
	if rng.IntN(30) == 0 {
		s.Reason = rt.Reason(rng.IntN(5))
	}
	if rng.IntN(40) == 0 {
		s.GPUs, s.Mounts = s.GPUs[:1], s.Mounts[1:]
	}
	if len(s.Procs) > 0 && rng.IntN(3) == 0 {
		s.Procs = s.Procs[1:]
	}
}

// peakSince gives s the highest peak of the interval that it now stands for.
func peakSince(s *rt.Snapshot, dropped []*rt.Snapshot) {
	for _, d := range dropped {
		if peak, ok := d.Job.MemIntervalPeak.Get(); ok {
			s.Job.MemIntervalPeak.Set(max(peak, s.Job.MemIntervalPeak.Or(0)))
		}
	}
}

// Whatever was read, and whatever devices came and went, a row that stays is as it was. Every
// column has the same sum, and the file is as large as it may be.
func TestQuotaKeepsTotals(t *testing.T) {
	t.Parallel()
	const quota = 700 << 10
	seeds := []uint64{0, 1, 2}
	if testing.Short() {
		n := random.Below(t, len(seeds))
		seeds = seeds[n : n+1]
	}
	for _, seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 11))
		m := newMachine(8, 2)
		var list []*rt.Snapshot
		for i := range sized(3000, 2000) {
			list = append(list, clone(m.next()))
			forget(rng, list[i])
		}
		small, large := writeBoth(t, quota, list)
		count, err := small.Count()
		gone, err2 := thinned(small.db)
		if err != nil || err2 != nil || count+gone != int64(len(list)) || gone == 0 {
			t.Errorf("%d snapshots are there and %d were thinned, of %d, %v, %v", count, gone, len(list), err, err2)
		}
		last := int64(0)
		for s, err := range small.Snapshots(t.Context(), 1, 0) {
			if err != nil {
				t.Fatal(err)
			}
			want := scalarsOf(list[s.Seq-1])
			peakSince(want, list[last:s.Seq-1])
			last = s.Seq
			same(t, want, scalarsOf(s))
		}
		a, _, err := usage(small.db)
		b, _, err2 := usage(large.db)
		if err != nil || err2 != nil || a >= b {
			t.Errorf("thinned to %d bytes, of %d, %v, %v", a, b, err, err2)
		}
	}
}

// A run that would fill the quota many times over stays within it, with the same
// detail at its beginning as near its end.
func TestQuotaBoundsTheFile(t *testing.T) {
	t.Parallel()
	const quota = 1 << 20
	n := sized(15_000, 5000)
	m := newMachine(8, 1)
	w := mustCreate(t, Options{QuotaRun: quota})
	var largest int64
	for i := range n {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			size, err := dirUsage(strings.TrimSuffix(w.Path(), "/"+baseOf(w.Path())))
			if err != nil {
				t.Fatal(err)
			}
			largest = max(largest, size)
		}
	}
	want := clone(&m.snap)
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	if largest > quota {
		t.Errorf("the files took up to %d bytes, of %d", largest, quota)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	var seqs []int64
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Seq == int64(n) {
			same(t, want, s)
		}
		seqs = append(seqs, s.Seq)
	}
	widest := int64(0)
	for i, seq := range seqs[1:] {
		widest = max(widest, seq-seqs[i])
	}
	if mean := int64(n / len(seqs)); widest > 8*mean {
		t.Errorf("%d of %d snapshots are left, %d apart in the mean and %d at most", len(seqs), n, mean, widest)
	}
	events, err := r.Events()
	if err != nil || len(events) != 1 || events[0].Status != "thinned" || events[0].Name != "spool.quota_run" ||
		!strings.HasPrefix(events[0].Detail, fmt.Sprint(n-len(seqs), " snapshots were thinned")) {
		t.Errorf("the ledger: %+v, %v", events, err)
	}
	t.Logf("largest %d bytes, %d snapshots left, widest gap %d", largest, len(seqs), widest)
}

func baseOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// A bound that cannot be kept is in the ledger, once, and so is that it is kept again.
func TestQuotaThatFailsIsSaid(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{QuotaRun: 256 << 10})
	m := newMachine(8, 1)
	put := func(n int) {
		t.Helper()
		for range n {
			if err := w.Put(m.next()); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(300)
	// Thinning deletes snapshots, and this does not let it.
	if err := w.db.exec("CREATE TEMP TRIGGER no BEFORE DELETE ON main.snapshot BEGIN SELECT raise(ABORT, 'not now'); END"); err != nil {
		t.Fatal(err)
	}
	put(sized(1500, 600))
	if w.quota.err == nil {
		t.Fatal("thinning did not fail")
	}
	if err := w.db.exec("DROP TRIGGER no"); err != nil {
		t.Fatal(err)
	}
	put(sized(1500, 600))
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range events {
		if e.Name == "quota" {
			said = append(said, e.Status)
			if e.Time.Before(start) || e.Status == "failed" && !strings.Contains(e.Detail, "not now") {
				t.Errorf("%+v", e)
			}
		}
	}
	if strings.Join(said, " ") != "failed ok" {
		t.Errorf("the ledger says of the quota: %q; %+v", said, events)
	}
}

// The directory is read again before it can have grown by the room that is left, and at least every five minutes.
func TestNextCheck(t *testing.T) {
	for room, want := range map[int64]time.Duration{
		-1: time.Minute, 0: time.Minute, 255 << 20: time.Minute, 256 << 20: 2 * time.Minute, 1 << 30: 5 * time.Minute, 1 << 50: 5 * time.Minute,
	} {
		if got := nextCheck(room); got != want {
			t.Errorf("with room for %d bytes the next check is after %s, want %s", room, got, want)
		}
	}
}

// A file that QuotaNode limits is checked each minute, so that its limit rises as soon as there is room.
func TestNextCheckOfALimitedFile(t *testing.T) {
	w := mustCreate(t, Options{QuotaNode: 1 << 40})
	defer w.Close()
	if err := w.quota.updateLimit(); err != nil {
		t.Fatal(err)
	}
	bound, err := nodeBound(filepath.Dir(w.Path()), 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(nextCheck(bound - 1<<20)); w.quota.next != want {
		t.Errorf("the next check is after %s, want %s", time.Duration(w.quota.next), time.Duration(want))
	}
	w.quota.isNodeLimit, w.quota.limit, w.quota.next = true, 4096, 0
	if err := w.quota.updateLimit(); err != nil || w.quota.limit != 5120 || w.quota.next != int64(nodeEvery) {
		t.Errorf("limit %d, next check after %s, %v; want 5120 and 1m", w.quota.limit, time.Duration(w.quota.next), err)
	}
}
