package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/streaming"
)

// Without --spool and without a usable home the spool is a private directory below TMPDIR.
func TestFindSpoolAmongTemporaryFiles(t *testing.T) {
	private := "rt-" + strconv.Itoa(os.Getuid())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	network := filepath.Join(t.TempDir(), "nfs", "rt")
	check := func(dir string) error {
		if dir == network {
			return spool.ErrNetworkFS
		}
		return spool.CheckDir(dir)
	}
	for name, usual := range map[string]string{"no home": "", "a home that cannot be": file + "/rt", "a home on a network": network} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			for range 2 { // the second run finds it there
				s := settings{spoolDir: usual, anySpool: true}
				dir, err := s.findSpool(check)
				if err != nil || dir != filepath.Join(temp, private) || !streaming.IsPrivate(dir) {
					t.Errorf("%q, %v", dir, err)
				}
			}
		})
	}
}

// What is named is taken as it is, and nothing else.
func TestFindSpoolThatIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	s := settings{spoolDir: "a/b"}
	if dir, err := s.findSpool(spool.CheckDir); err != nil || dir != "a/b" {
		t.Errorf("%q, %v", dir, err)
	}
	s = settings{spoolDir: "/proc/nowhere"}
	if dir, err := s.findSpool(spool.CheckDir); err == nil {
		t.Errorf("%q", dir)
	}
}

// Another user who prepares the directory cannot redirect our files.
func TestPrivateInMistrusts(t *testing.T) {
	name := "rt-" + strconv.Itoa(os.Getuid())
	for what, make := range map[string]func(path string) error{
		"a link":                  func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":                  func(path string) error { return os.WriteFile(path, nil, 0o700) },
		"a directory for anybody": func(path string) error { return os.Mkdir(path, 0o755) },
		"a directory of another": func(path string) error {
			if os.Getuid() != 0 {
				return os.Mkdir(path, 0o750) // only root can give one away
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return os.Chown(path, 12345, 12345)
		},
	} {
		t.Run(what, func(t *testing.T) {
			temp := t.TempDir()
			if err := make(filepath.Join(temp, name)); err != nil {
				t.Fatal(err)
			}
			if dir, err := privateIn(temp, spool.CheckDir); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%q, %v", dir, err)
			}
		})
	}
}
