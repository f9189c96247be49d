package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/doctor"
)

// TestDoctor breaks a site in one way after the other.
func TestDoctor(t *testing.T) {
	for name, tc := range map[string]struct {
		broken  func(t *testing.T, dir string)
		check   string
		status  doctor.Status
		finding string
	}{
		"there is no site": {func(t *testing.T, dir string) {
			remove(t, dir)
		}, "serve.database", doctor.Failure, "there is no site at serve.dir"},
		"the database is damaged": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "registry.db"), strings.Repeat("no database", 1000))
			remove(t, filepath.Join(dir, "registry.db-wal"))
			remove(t, filepath.Join(dir, "registry.db-shm"))
		}, "serve.database", doctor.Failure, "not a database"},
		"the tables are older": {func(t *testing.T, dir string) {
			inDatabase(t, filepath.Join(dir, "registry.db"), "UPDATE goose_db_version SET version_id = version_id - 1000")
		}, "serve.database", doctor.Failure, "before the first release, 0.2.0"},
		"the objects are those of another site": {func(t *testing.T, dir string) {
			remove(t, filepath.Join(dir, "objects", "registry.sha256"))
		}, "serve.objects", doctor.Failure, "rt-site claim"},
		"the objects cannot be written": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "objects", "doctor"), "a file, not a directory")
		}, "serve.objects", doctor.Failure, "store object doctor/"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := newSite(t)
			tc.broken(t, dir)
			status, out, messages := rtSite(t, dir, "doctor", "--json")
			var checks []doctor.Check
			if err := json.Unmarshal([]byte(out), &checks); err != nil || len(checks) == 0 {
				t.Fatal(err, out, messages)
			}
			last := checks[len(checks)-1]
			if last.Name != tc.check || last.Status != tc.status || !strings.Contains(last.Finding, tc.finding) || last.Fix == "" {
				t.Errorf("%+v, want %s of %s with %q", last, tc.status, tc.check, tc.finding)
			}
			if status != 2 {
				t.Errorf("status %d, want 2", status)
			}
		})
	}
}

func TestDoctorSound(t *testing.T) {
	dir, _ := newSite(t)
	status, out, messages := rtSite(t, dir, "doctor")
	if status != 0 || !strings.Contains(out, "2 checks of a receiver: 2 ok") || messages != "" {
		t.Errorf("%d %q %q", status, out, messages)
	}
	left, err := os.ReadDir(filepath.Join(dir, "objects", "doctor"))
	if len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if status, out, _ := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 2 runs") {
		t.Errorf("verify after doctor: %d %q", status, out)
	}
}

// TestDoctorOfAnotherUser: root makes no files that the service could not write.
func TestDoctorOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can give the site to another user
	}
	dir, _ := newSite(t)
	if err := os.Chown(filepath.Join(dir, "registry.db"), 4711, -1); err != nil {
		t.Fatal(err)
	}
	status, out, _ := rtSite(t, dir, "doctor")
	if status != 0 || !strings.Contains(out, "unknown  serve.database: not checked: ") {
		t.Errorf("%d %q", status, out)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
