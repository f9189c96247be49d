package hook

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGuard: the scripts in slurm.conf exit 0 even if the programs cannot start.
func TestGuard(t *testing.T) {
	dir := t.TempDir()
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", dir+"/", "../../cmd/rt-prolog", "../../cmd/rt-epilog")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"prolog", "epilog"} {
		text, err := os.ReadFile(filepath.Join("../../contrib/slurm/hooks", name))
		if err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(string(text), "/usr/local/libexec/rt/", dir+"/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []string{"--as=20000000", "--nproc=1", "--data=1000000"} {
			t.Run(name+limit, func(t *testing.T) {
				if err := starved(limit, filepath.Join(dir, name)).Run(); err != nil {
					t.Errorf("%s exits with %v", name, err)
				}
			})
		}
		if limit := "--as=20000000"; starved(limit, filepath.Join(dir, "rt-"+name)).Run() == nil {
			t.Errorf("rt-%s starts with %s: the limit shows nothing", name, limit)
		}
	}
}

// starved runs a program with a limit, as another user if possible: the limit of processes
// does not apply to root.
func starved(limit, program string) *exec.Cmd {
	c := exec.Command("prlimit", limit, program)
	c.Env = []string{"SLURM_JOB_ID=1"}
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	return c
}
