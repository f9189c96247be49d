package procfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var f File
	var b Buffer
	if err := f.Open(path); !errors.Is(err, fs.ErrNotExist) || f.IsOpen() || f.Fd() != -1 {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := b.Read(&f); !errors.Is(err, syscall.EBADF) {
		t.Errorf("reading a closed file: %v", err)
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000} {
		text := bytes.Repeat([]byte{'x'}, size)
		if err := errors.Join(os.WriteFile(path, text, 0o600), f.OpenBytes([]byte(path+"\x00"), 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Read(&f); err != nil || !bytes.Equal(got, text) {
			t.Errorf("Read of %d bytes: %d bytes, %v", size, len(got), err)
		}
		if got, err := b.ReadAll(&f); err != nil || !bytes.Equal(got, text) {
			t.Errorf("ReadAll of %d bytes: %d bytes, %v", size, len(got), err)
		}
		if size == 1 { // closed and opened again
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	f.Retire()
	if err := f.Open(path); err != nil || f.IsOpen() || !f.Retired() {
		t.Errorf("a retired file opens: %v", err)
	}
	if err := f.OpenBytes([]byte(path+"\x00"), 0); err != nil || f.IsOpen() {
		t.Errorf("a retired file opens: %v", err)
	}
}

// A file of procfs that the kernel returns a page at a time is read to its end.
func TestReadAll(t *testing.T) {
	var f File
	if err := f.Open("/proc/self/smaps"); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make(Buffer, 64<<10)
	text, err := b.ReadAll(&f)
	if err != nil || len(text) <= 4096 || !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	var f File
	var b Buffer
	name := []byte("/proc/self/stat\x00")
	read := func() {
		if err := f.OpenBytes(name, 0); err != nil {
			t.Fatal(err)
		}
		text, err := b.Read(&f)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := ParseStat(text); !ok {
			t.Fatalf("%q", text)
		}
		if _, err := b.ReadAll(&f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}
