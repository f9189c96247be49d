package spool_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

func recordOf(t testing.TB, r *spool.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := archive.Write(t.Context(), &out, r, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The record of an hour takes at most 40 KiB.
func TestRecordOfAnHour(t *testing.T) {
	for _, c := range []struct {
		name        string
		tasks, gpus int
	}{{"one task", 1, 0}, {"four tasks and a GPU", 4, 1}} {
		r := spool.Hour(t, c.tasks, c.gpus)
		record := recordOf(t, r)
		t.Logf("%s: %d bytes", c.name, len(record))
		if len(record) > 40<<10 {
			t.Errorf("%s: the record of an hour has %d bytes", c.name, len(record))
		}
		path, err := archive.Read(t.TempDir(), nil, bytes.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		back, err := spool.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer back.Close()
		if !bytes.Equal(recordOf(t, back), record) {
			t.Errorf("%s: the record of the new run differs", c.name)
		}
	}
}

// BenchmarkRecord prints the time to write and to read the record of an hour, and its size.
func BenchmarkRecord(b *testing.B) {
	r := spool.Hour(b, 4, 1)
	record := recordOf(b, r)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if err := archive.Write(b.Context(), io.Discard, r, nil); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(record)), "record-B")
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			if _, err := archive.Read(b.TempDir(), nil, bytes.NewReader(record)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
