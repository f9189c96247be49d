package spool

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// FuzzReader reads mutated spool files: reading ends, without a panic, and within the limits.
// The seeds are files of ended runs. A mutation sets a few bytes at a position.
func FuzzReader(f *testing.F) {
	before := stepLimit
	stepLimit = time.Second
	f.Cleanup(func() { stepLimit = before })
	seeds := [][]byte{endedFile(f, 3), endedFile(f, 40)}
	for i := range seeds {
		f.Add(byte(i), uint32(28), []byte{0, 0, 0xff, 0xff})                  // the number of pages
		f.Add(byte(i), uint32(100), []byte{0x0d})                             // the type of the first page
		f.Add(byte(i), uint32(len(seeds[i])-pageSize), []byte{0x05, 0, 0, 0}) // and of the last
		f.Add(byte(i), uint32(60), []byte{0, 0, 0, 9})
		f.Add(byte(i), uint32(2*pageSize+100), []byte("view\x00\xff"))
	}
	path := filepath.Join(f.TempDir(), "x.db")
	f.Fuzz(func(t *testing.T, seed byte, at uint32, change []byte) {
		data := append([]byte(nil), seeds[int(seed)%len(seeds)]...)
		copy(data[int(at)%len(data):], change)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path + "-wal")
		defer os.Remove(path + "-shm")
		r, err := Open(path)
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = r.Events()
		_, _ = r.Delivery().Batches()
		_, _, _ = r.Delivery().Registration()
		n := 0
		for range r.Snapshots(t.Context(), 1, 0) {
			n++
		}
		for range r.Records(t.Context(), "") {
			n++
		}
		r.Verify(t.Context())
		if n > len(data) {
			t.Errorf("%d rows of a file of %d bytes", n, len(data))
		}
	})
}
