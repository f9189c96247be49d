package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
)

// A column that this version does not know is no damage of the record.
func TestARecordOfANewerVersion(t *testing.T) {
	_, _, record := recordOf(t, "alice")
	z, err := zstd.NewReader(bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	_, frames, _ := bytes.Cut(plain, []byte("\n"))
	size, n := binary.Uvarint(frames)
	columns := frames[n : n+int(size)] // the first frame has the names of the columns
	for _, tc := range []struct {
		column, as string
		want       error
	}{{"qos", "qos", nil}, {"qos", "new", site.ErrNewer}} {
		at := bytes.Index(columns, []byte(" "+tc.column+" ")) + 1
		if at == 0 {
			t.Fatalf("no column %s: %s", tc.column, columns)
		}
		copy(columns[at:], tc.as)
		binary.BigEndian.PutUint32(frames[n+int(size):], crc32.Checksum(columns, crc32.MakeTable(crc32.Castagnoli)))
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = runOf(bytes.NewReader(w.EncodeAll(plain, nil)))
		isSame := errors.Is(err, tc.want) && (err == nil) == (tc.want == nil)
		if !isSame || w.Close() != nil {
			t.Errorf("the column %s: %v, want %v", tc.as, err, tc.want)
		}
	}
}

// A record whose end is damaged is refused when it arrives: a report of its job could not be made.
func TestADamagedRecordIsRefused(t *testing.T) {
	_, _, record := recordOf(t, "alice")
	if _, err := runOf(bytes.NewReader(record)); err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{1, 10, len(record) / 2} {
		if _, err := runOf(bytes.NewReader(record[:len(record)-cut])); !errors.Is(err, spool.ErrRecord) {
			t.Errorf("without its last %d bytes: %v", cut, err)
		}
	}
}
