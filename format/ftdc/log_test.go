package ftdc

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func listFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+fileSuffix))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func TestLogRotates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "diagnostics.ftdc", "arm")
	l := NewLog(dir, "rt", LogOptions{FileBytes: 200, Files: 3})
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(200) {
		d := FlatDatum{start + i*1e9, []Reading{{"a.b", float32(i + 1)}, {"a.c", 1}}}
		if err := l.Write(&d); err != nil {
			t.Fatal(err)
		}
		for n, path := range listFiles(t, dir) { // so that their ages differ
			at := time.Unix(1e9+int64(n), 0)
			if path != l.f.Name() {
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	paths := listFiles(t, dir)
	if len(paths) != 3 {
		t.Fatalf("files: %v", paths)
	}
	var all []FlatDatum
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 200+40 {
			t.Errorf("%s has %d bytes", path, len(text))
		}
		data, err := parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	if len(all) < 20 || all[len(all)-1].Time != start+199e9 {
		t.Fatalf("%d data, the last of %v", len(all), all[len(all)-1].ConvertedTime())
	}
	for i := range all[1:] {
		if all[i+1].Time-all[i].Time != 1e9 {
			t.Errorf("a gap after %v", all[i].ConvertedTime())
		}
	}
}

// A step of the clock begins a new file, so that every file is read to its end.
func TestLogAfterTheClockWasSet(t *testing.T) {
	dir := t.TempDir()
	l := NewLog(dir, "rt", LogOptions{FileBytes: 1 << 20, Files: 10})
	for _, at := range []int64{100e9, 101e9, 50e9, 51e9, 51e9 + 2*maxStep, 50e9} {
		if err := l.Write(&FlatDatum{at, []Reading{{"a.b", float32(at)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range listFiles(t, dir) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := parse(bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		n += len(data)
	}
	if n != 6 {
		t.Errorf("%d of 6 data", n)
	}
}

// /dev/full takes no byte: files with data stay where no new one can be begun.
func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := NewLog(dir, "rt", LogOptions{FileBytes: 1 << 20, Files: 2})
	d := FlatDatum{1e9, []Reading{{"a.b", 1}}}
	if err := l.Write(&d); err != nil {
		t.Fatal(err)
	}
	disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := l.f
	l.f = disk
	if err := l.Write(&d); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("write to a full disk: %v", err)
	}
	if err := good.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&d); err != nil { // the disk takes data again
		t.Fatal(err)
	}
	if got := listFiles(t, dir); len(got) != 2 {
		t.Errorf("files: %v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
