package lake

import (
	"io"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
)

// BenchmarkSamples measures the conversion and the writer without records: samples per second of processor time.
func BenchmarkSamples(b *testing.B) {
	e := newSampleEncoder()
	w, err := newTable(io.Discard, e.schema, e.about, groupRows)
	if err != nil {
		b.Fatal(err)
	}
	var run rt.Run
	run.JobID, run.Node = rt.Some[uint64](5), "n1"
	e.begin(&run)
	var s rt.Snapshot
	i := uint64(0)
	before := processorTime(b)
	for b.Loop() {
		i++
		change(&s, i)
		if !e.add(&s) {
			continue
		}
		n, err := e.flush(w.columns)
		if err == nil {
			err = w.added(n)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/(processorTime(b)-before), "samples/cpu-s")
}

// change makes the reading with a number.
func change(s *rt.Snapshot, i uint64) {
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
			if f.Derived || f.Kind == rt.Counter {
				v = i*917*uint64(k) + (i*i*2654435761)>>40
			}
			f.Field(&s.Job).Set(v)
		}
	}
}

// processorTime is the processor time of this process in seconds.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
