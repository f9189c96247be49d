package lake

import (
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/resource-tracker/rt"
)

func BenchmarkSamples(b *testing.B) {
	e := newSampleEncoder()
	w := parquet.NewGenericWriter[any](io.Discard, e.schema, parquet.Compression(&parquet.Zstd))
	var run rt.Run
	run.JobID = rt.Some[uint64](5)
	run.Node = "n1"
	e.begin(&run)
	var s rt.Snapshot
	cw := w.ColumnWriters()
	b.Logf("%d columns", len(cw))
	i := uint64(0)
	rows := 0
	for b.Loop() {
		i++
		s.Seq = int64(i%100 + 1)
		s.Wall += 10e9
		s.Boot += 10e9
		s.Node.CPU.Set(rt.CPUTimes{User: i * 123, System: i * 7, Idle: i * 1000})
		for k, f := range rt.NodeFigures {
			if k < 16 {
				f.Field(&s.Node).Set(i*1017*uint64(k) + (i*i*2654435761)>>40)
			}
		}
		for k, f := range rt.JobFigures {
			if k < 28 {
				v := uint64(1 << 30)
				if f.Storage == rt.Moving {
					v = i*917*uint64(k) + (i*i*2654435761)>>40
				}
				f.Field(&s.Job).Set(v)
			}
		}
		if e.add(&s) {
			cols, n := e.take()
			for c, v := range cols {
				if _, err := cw[c].WriteRowValues(v); err != nil {
					b.Fatal(err)
				}
			}
			rows += n
			if rows >= 128<<10 {
				if err := w.Flush(); err != nil {
					b.Fatal(err)
				}
				rows = 0
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
