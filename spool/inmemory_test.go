package spool

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
)

// contentOf is all that a run in memory has.
func contentOf(t testing.TB, m *InMemory) (text string, err error) {
	t.Helper()
	events, err := m.Events()
	if err != nil {
		return "", err
	}
	text = fmt.Sprintf("%+v %+v", m.Run(), events)
	for s, err := range m.Snapshots(t.Context()) {
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("\n%+v", *s)
	}
	return text, nil
}

// framesOf returns the contents of the frames of a record.
func framesOf(t testing.TB, record []byte) (list [][]byte) {
	t.Helper()
	in := &recordReader{r: bufio.NewReader(bytes.NewReader(record[len(recordMagic):]))}
	for {
		content, err := in.frame()
		if err != nil {
			t.Fatal(err)
		}
		if len(content) == 0 {
			return list
		}
		list = append(list, bytes.Clone(content))
	}
}

// A record that is as it was written is read in memory.
func TestInMemory(t *testing.T) {
	t.Parallel()
	m, err := LoadInMemory(bytes.NewReader(recordOf(t, thinnedRun(t))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := contentOf(t, m); err != nil {
		t.Error(err)
	}
}

// FuzzInMemory gives the frames of a record any content. What is read in memory is the same through a spool file.
func FuzzInMemory(f *testing.F) {
	w := mustCreate(f, Options{})
	m := newMachine(4, 1)
	for range 30 {
		if err := w.Put(m.next()); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		f.Fatal(err)
	}
	frames := framesOf(f, recordOf(f, mustOpen(f, w.Path())))
	for n := range frames {
		for i := range 3 {
			f.Add(uint8(n), uint16(i*len(frames[n])/3), byte(1+i*11))
		}
	}
	f.Add(uint8(0), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, number uint8, at uint16, change byte) {
		record := []byte(recordMagic)
		for n, content := range frames {
			content = bytes.Clone(content)
			if n == int(number) && int(at) < len(content) {
				content[at] ^= change
			}
			record = append(binary.AppendUvarint(record, uint64(len(content))), content...)
			record = binary.BigEndian.AppendUint32(record, crc32.Checksum(content, castagnoli()))
		}
		record = append(record, 0)
		m, err := LoadInMemory(bytes.NewReader(record))
		var got string
		if err == nil {
			got, err = contentOf(t, m)
		}
		if err != nil {
			if !errors.Is(err, ErrNotInMemory) {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		path, err := Load(t.TempDir(), nil, bytes.NewReader(record))
		if err != nil {
			t.Fatalf("it is read in memory, and not through a spool file: %v", err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		events, err := r.Events()
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%+v %+v", r.Run(), events)
		for s, err := range r.Snapshots(t.Context(), 1, 0) {
			if err != nil {
				t.Fatalf("it is read in memory, and not through a spool file: %v", err)
			}
			want += fmt.Sprintf("\n%+v", *s)
		}
		if got != want {
			t.Errorf("in memory:\n%s\nthrough a spool file:\n%s", got, want)
		}
	})
}
