package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/config"
	slurmhook "github.com/resource-tracker/rt/slurm/launch"
)

// procIn makes a /proc of a process with a cgroup, and returns it with the mount point of v2.
func procIn(t *testing.T, cgroup string) (procRoot, mount string) {
	t.Helper()
	procRoot, mount = t.TempDir(), t.TempDir()
	self := filepath.Join(procRoot, "self")
	if err := os.Mkdir(self, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cgroup":    cgroup,
		"mountinfo": fmt.Sprintf("30 25 0:26 / %s rw - cgroup2 cgroup2 rw\n", mount),
	} {
		if err := os.WriteFile(filepath.Join(self, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return procRoot, mount
}

// A hook in the extern step of a job moves to the cgroup of the trackers, which exists from the
// second time on.
func TestRunInJob(t *testing.T) {
	procRoot, mount := procIn(t, "0::/system.slice/slurmstepd.scope/job_12/step_extern/slurm\n")
	scope := filepath.Join(mount, "system.slice/slurmstepd.scope")
	if err := os.MkdirAll(scope, 0o755); err != nil {
		t.Fatal(err)
	}
	procs := filepath.Join(scope, "rt/cgroup.procs")
	for range 2 {
		if err := leaveJob(procRoot); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(procs)
		if err != nil {
			t.Fatal(err)
		}
		if st.Size() == 0 {
			t.Errorf("%s is empty", procs)
		}
		if err := os.Chmod(procs, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(procs); err != nil || string(text) != strconv.Itoa(os.Getpid()) {
		t.Errorf("%s has %q, %v", procs, text, err)
	}
}

// Where the hook cannot leave the job's cgroup, it says so, with the cause and what to do.
func TestRunInJobRefused(t *testing.T) {
	for cgroup, cause := range map[string]string{
		"4:memory:/slurm/uid_1/job_12/step_extern\n":                           "cgroups of v1",
		"0::/no.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n": "no such file",
	} {
		procRoot, _ := procIn(t, cgroup)
		err := leaveJob(procRoot)
		if err == nil || !strings.Contains(err.Error(), cause) || !strings.Contains(err.Error(), "take RunInJob out of PrologFlags") {
			t.Errorf("%q: %v, want an error with %q", cgroup, err, cause)
		}
	}
}

func TestNotInJob(t *testing.T) {
	procRoot, mount := procIn(t, "0::/system.slice/slurmd.service\n")
	if err := leaveJob(procRoot); err != nil {
		t.Errorf("in slurmd's cgroup: %v", err)
	}
	if left, err := os.ReadDir(mount); err != nil || len(left) != 0 {
		t.Errorf("%q were made, %v", left, err)
	}
	if err := leaveJob(t.TempDir()); err != nil {
		t.Errorf("without cgroups: %v", err)
	}
	var h slurmhook.Hook
	if _ = build(&h, config.Default(), ""); h.Prepare == nil { // whether user rt exists or not
		t.Error("the hook does not leave the job's cgroup")
	}
}

// An Epilog that is not root says so when a file is denied to it, and only then. It names RunInJob only in the
// extern step of a job.
func TestEpilogAsUser(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/run/rt/12@n1.lock", Err: fs.ErrPermission}
	inJob, _ := procIn(t, "0::/system.slice/slurmstepd.scope/job_12/step_extern/slurm\n")
	outside, _ := procIn(t, "0::/system.slice/slurmd.service\n")
	for procRoot, isInJob := range map[string]bool{inJob: true, outside: false, t.TempDir(): false} {
		err := explainUser(denied, 1000, procRoot)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "as user 1000, not as root") {
			t.Errorf("an Epilog of user 1000: %v", err)
		}
		if strings.Contains(err.Error(), "RunInJob") != isInJob {
			t.Errorf("in the extern step: %t, the message is %q", isInJob, err)
		}
	}
	for uid, err := range map[int]error{0: denied, 1000: fs.ErrNotExist} {
		if got := explainUser(err, uid, inJob); !errors.Is(got, err) || got.Error() != err.Error() {
			t.Errorf("an Epilog of user %d: %v, want %v", uid, got, err)
		}
	}
	if err := explainUser(nil, 1000, inJob); err != nil {
		t.Errorf("an Epilog without an error: %v", err)
	}
}
