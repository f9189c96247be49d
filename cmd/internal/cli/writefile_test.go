package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file never becomes readable for more users than the umask and its mode permit.
func TestWriteFileObeysTheUmask(t *testing.T) {
	write := func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "data")
		return err
	}
	defer unix.Umask(unix.Umask(0))
	for _, tt := range []struct {
		umask     int
		was, want fs.FileMode // 0: there was none
	}{
		{0o077, 0, 0o600}, {0o027, 0, 0o640}, {0o022, 0, 0o644}, {0, 0, 0o666},
		{0o022, 0o600, 0o600}, {0o077, 0o664, 0o664},
	} {
		name := filepath.Join(t.TempDir(), "out")
		unix.Umask(0)
		if tt.was != 0 {
			if err := os.WriteFile(name, nil, tt.was); err != nil {
				t.Fatal(err)
			}
		}
		unix.Umask(tt.umask)
		err := WriteFile(name, write)
		kept := unix.Umask(0)
		st, statErr := os.Lstat(name)
		if err := errors.Join(err, statErr); err != nil {
			t.Fatal(err)
		}
		if st.Mode() != tt.want || kept != tt.umask {
			t.Errorf("umask %#o, file %#o: %#o, want %#o; the umask is then %#o", tt.umask, tt.was, st.Mode(), tt.want, kept)
		}
	}
}

// The runs that a spool file has are not replaced by a page or an export.
func TestWriteFileKeepsADatabase(t *testing.T) {
	name := filepath.Join(t.TempDir(), "job-1-n1.db")
	const was = "SQLite format 3\x00and its pages"
	if err := os.WriteFile(name, []byte(was), 0o600); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(name, func(io.Writer) error { return nil })
	if is, readErr := os.ReadFile(name); err == nil || readErr != nil || string(is) != was {
		t.Errorf("error %v; the file is %q, %v", err, is, readErr)
	}
}

// If another user has placed a file or a link, what root writes stays private.
func TestWriteFileOverAnotherUsersFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	defer unix.Umask(unix.Umask(0))
	dir := t.TempDir()
	public, file, link := filepath.Join(dir, "public"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	err := errors.Join(os.WriteFile(public, nil, 0o666), os.WriteFile(file, nil, 0o666), os.Chown(file, 65534, -1), os.Symlink(public, link), os.Lchown(link, 65534, -1))
	unix.Umask(0o077)
	for _, name := range []string{file, link} {
		err = errors.Join(err, WriteFile(name, func(io.Writer) error { return nil }))
		if st, statErr := os.Lstat(name); statErr != nil || st.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, statErr)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A full disk is one error, in one line.
func TestWriteFileNamesAFullDiskOnce(t *testing.T) {
	for _, size := range []int{10, 1 << 20} { // fails in Flush, and in Write
		err := WriteFile("/dev/full", func(w io.Writer) error {
			if _, err := w.Write(make([]byte, size)); err != nil {
				return fmt.Errorf("write the page: %w", err)
			}
			return nil
		})
		if !errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
