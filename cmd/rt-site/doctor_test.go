package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// Root becomes the owner of the site, so that it makes no files that the service could not write.
func TestRootBecomesTheOwnerOfTheSite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: becomes another user")
	}
	const owner = 4711
	dir, conf := newSite(t)
	above := filepath.Dir(dir)
	err := errors.Join(os.Chmod(filepath.Dir(above), 0o755), os.Chmod(conf, 0o600),
		os.WriteFile(filepath.Join(above, "site.env"), []byte("# of the unit\nTMPDIR='"+dir+"'\n"), 0o600),
		filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, owner, owner))
		}))
	if err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]string{"doctor": "2 checks of a receiver: 2 ok", "verify": "checked 2 runs with 2 objects"} {
		out, err := siteAs(t, 0, conf, dir, verb)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s as root: %v %q", verb, err, out)
		}
		if out, err := siteAs(t, owner, os.DevNull, dir, verb); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s as the owner: %v %q", verb, err, out)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		info, infoErr := d.Info()
		if err = errors.Join(err, infoErr); err == nil && info.Sys().(*syscall.Stat_t).Uid != owner {
			t.Errorf("%s is not a file of the owner", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if out, err := siteAs(t, 4712, os.DevNull, dir, "verify"); err == nil || !strings.Contains(out, "permission denied: run this as the user of the service") {
		t.Errorf("verify as another user: %v %q", err, out)
	}
	if out, err := siteAs(t, 4712, os.DevNull, dir, "doctor"); err != nil || !strings.Contains(out, "rt-site doctor as that user or as root") {
		t.Errorf("doctor as another user: %v %q", err, out)
	}
	if out, err := siteAs(t, 0, conf, dir, "hold", "--for", "1h"); err == nil || !strings.Contains(out, "which root does with runuser") {
		t.Errorf("hold as root: %v %q", err, out)
	}
}

// siteAs runs rt-site as a user.
func siteAs(t *testing.T, uid uint32, conf, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"--config", conf, "--dir", dir}, args...)...)
	cmd.Args[0] = "rt-site"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestEnvironmentOfTheService(t *testing.T) {
	file := filepath.Join(t.TempDir(), "site.env")
	write(t, file, "# PGPASSWORD=no\nRT_TEST_NEW=\"a=b\"\n\nRT_TEST_SET=file\nno variable\n")
	t.Setenv("RT_TEST_SET", "process")
	t.Setenv("RT_TEST_NEW", "")
	if err := os.Unsetenv("RT_TEST_NEW"); err != nil {
		t.Fatal(err)
	}
	if err := addEnvironment(file); err != nil || os.Getenv("RT_TEST_NEW") != "a=b" || os.Getenv("RT_TEST_SET") != "process" {
		t.Errorf("%v %q %q", err, os.Getenv("RT_TEST_NEW"), os.Getenv("RT_TEST_SET"))
	}
	if err := addEnvironment(filepath.Join(filepath.Dir(file), "none")); err != nil {
		t.Error(err)
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
