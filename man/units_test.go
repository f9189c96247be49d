package man_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// execs matches the programs of units.
var execs = regexp.MustCompile(`(?m)^(Exec\w+=)/usr/local/\S+`)

// TestUnits: systemd knows all keys of the units, and accepts their values.
func TestUnits(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	units := map[string]string{}
	for _, pattern := range []string{"*.service", "*.timer"} {
		names, err := filepath.Glob(filepath.Join("..", "contrib", "systemd", pattern))
		if err != nil || len(names) == 0 {
			t.Fatalf("no units %s: %v", pattern, err)
		}
		for _, name := range names {
			units[filepath.Base(name)] = execs.ReplaceAllString(read(t, name), "${1}/bin/true") // rt need not be installed
		}
	}
	check := func(units map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		args := []string{"verify", "--man=no"}
		for name, text := range units {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, filepath.Join(dir, name))
		}
		out, err := exec.Command(verify, args...).CombinedOutput() // it warns with status 0
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}
	if out := check(units); out != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	wrong := "[Service]\nExecStart=/bin/true\nProtectHme=yes\n"
	if out := check(map[string]string{"rt-wrong.service": wrong}); out == "" {
		t.Error("systemd-analyze verify accepts a unit with an unknown key")
	}
}
