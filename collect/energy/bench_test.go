package energy

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

// BenchmarkRead reads a node of two packages and their memory.
func BenchmarkRead(b *testing.B) {
	a, err := txtar.ParseFile("testdata/sys.txtar")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		b.Fatal(err)
	}
	s := New(filepath.Join(dir, "two"))
	defer s.Close()
	snap := rt.Snapshot{Boot: 1}
	b.ReportAllocs()
	for b.Loop() {
		snap.Energy = snap.Energy[:0]
		if err := s.Read(&snap); err != nil {
			b.Fatal(err)
		}
	}
}
