package logging

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Files that are not regular are skipped, even if they can be written.
func TestRefusedTargets(t *testing.T) {
	tests := map[string]func(path string) error{
		"FIFO without a reader": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"full FIFO": func(path string) error {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			t.Cleanup(func() { f.Close() })
			fd := int(f.Fd())
			if err := syscall.SetNonblock(fd, true); err != nil {
				return err
			}
			for err == nil {
				_, err = syscall.Write(fd, make([]byte, 4096))
			}
			if !errors.Is(err, syscall.EAGAIN) {
				return err
			}
			return nil
		},
		"link":          func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "elsewhere"), path) },
		"link to null":  func(path string) error { return os.Symlink(os.DevNull, path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"socket":        func(path string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
		"below no such": func(path string) error { return nil },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, fallback := filepath.Join(dir, "rt.log"), filepath.Join(dir, "fallback.log")
			if err := prepare(path); err != nil {
				t.Fatal(err)
			}
			if name == "below no such" {
				path = filepath.Join(path, "rt.log")
			}
			if f, err := OpenFile(path); err == nil {
				f.Close()
				t.Error("it was opened")
			}
			New(Places{Program: "p", Target: path, Fallback: fallback}).Info("one")
			if text, err := os.ReadFile(fallback); err != nil || !strings.HasSuffix(string(text), "info: one\n") {
				t.Errorf("fallback file: %q, %v", text, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "elsewhere")); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

// The null device turns the log off.
func TestNull(t *testing.T) {
	fallback := filepath.Join(t.TempDir(), "fallback.log")
	New(Places{Program: "p", Target: os.DevNull, Fallback: fallback}).Info("one")
	if _, err := os.Stat(fallback); err == nil {
		t.Error("the null device was skipped")
	}
}
