package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	fifo, large, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "large"), filepath.Join(dir, "link")
	err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(large, make([]byte, 101), 0o600), os.Symlink("large", link))
	if err != nil {
		t.Fatal(err)
	}
	for path, word := range map[string]string{
		"/dev/zero": "a device", fifo: "a FIFO", dir: "a directory", large: "more than 100 bytes", link: "more than 100 bytes",
	} {
		if data, err := ReadSmall(path, 100); data != nil || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
	}
	if data, err := ReadSmall(large, 101); err != nil || len(data) != 101 {
		t.Errorf("at the limit: %d bytes, %v", len(data), err)
	}
	if _, err := ReadSmall(filepath.Join(dir, "missing"), 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
