package upload_test

import (
	"testing"

	"github.com/resource-tracker/rt/upload"
)

// BenchmarkDrain measures a whole drain of runs in memory: derive, encode, gzip,
// hash, ledger. Its budget is 100,000 snapshots per second and core.
func BenchmarkDrain(b *testing.B) {
	const perRun = 60_000
	r := newRun(1, perRun)
	snapshots := 0
	b.ReportAllocs()
	for b.Loop() {
		run := &fakeRun{run: r.run, snaps: r.snaps}
		c := &fakeClient{}
		if _, err := upload.Drain(b.Context(), dirOf(run), c, c, upload.DrainOptions{Concurrency: 1}); err != nil {
			b.Fatal(err)
		}
		snapshots += len(r.snaps)
	}
	b.ReportMetric(float64(snapshots)/b.Elapsed().Seconds(), "snapshots/s")
}
