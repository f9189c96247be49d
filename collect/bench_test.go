package collect_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
)

// nodeSources are the sources of a node in the order of the specification's loop.
func nodeSources() []collect.Source {
	fs := proc.NewFS("/proc", "/sys")
	return []collect.Source{
		proc.NewCPU(fs), proc.NewProcesses(fs), proc.NewMemory(fs), proc.NewNet(fs),
		proc.NewDisk(fs), proc.NewSpace(fs),
		proc.NewLoad(fs), proc.NewCPUFreq(fs), proc.NewFabric(fs), proc.NewLustre(fs), proc.NewNFS(fs),
		gpu.New("/dev", "/sys"),
	}
}

// readSource reads a source, which this machine may not have.
func readSource(src collect.Source, s *rt.Snapshot) error {
	if err := src.Read(s); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", src.Name(), err)
	}
	return nil
}

// BenchmarkSnapshot reads everything of this node in a tight loop. The program in
// testdata/floor reads the same files in C.
func BenchmarkSnapshot(b *testing.B) {
	var s rt.Snapshot
	sources := nodeSources()
	read := func() {
		s.Boot += int64(time.Microsecond)
		for _, src := range sources {
			if err := readSource(src, &s); err != nil {
				b.Fatal(err)
			}
		}
	}
	read()
	b.ReportAllocs()
	for b.Loop() {
		read()
	}
	b.StopTimer()
	for _, src := range sources {
		if err := src.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSource reads each source alone.
func BenchmarkSource(b *testing.B) {
	for _, src := range nodeSources() {
		b.Run(src.Name(), func(b *testing.B) {
			var s rt.Snapshot
			b.ReportAllocs()
			for b.Loop() {
				if err := readSource(src, &s); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := src.Close(); err != nil {
			b.Error(err)
		}
	}
}

// Every source of the node reads this machine, and allocates nothing once its
// buffers have grown.
func TestThisNode(t *testing.T) {
	for _, src := range nodeSources() {
		var s rt.Snapshot
		read := func() {
			if err := readSource(src, &s); err != nil {
				t.Fatal(err)
			}
		}
		read()
		read()
		if n := testing.AllocsPerRun(50, read); n != 0 {
			t.Errorf("%s: a reading makes %v allocations", src.Name(), n)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}
