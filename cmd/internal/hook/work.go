package hook

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/launch"
	"github.com/resource-tracker/rt/slurm/layout"
)

// work is the task of a program: start or stop a tracker.
type work func(h *slurmhook.Hook, env environ.Env, now time.Time) error

// startTracker is the work of rt-prolog.
func startTracker(h *slurmhook.Hook, env environ.Env, now time.Time) error {
	r, err := identify(env, now)
	if err != nil {
		return err
	}
	h.Describe = func(run *rt.Run) []byte { return environ.PrologText(env, run) }
	return h.Prolog(r)
}

// stopTracker is the work of rt-epilog.
func stopTracker(h *slurmhook.Hook, env environ.Env, now time.Time) error {
	r, err := identify(env, now)
	if err != nil {
		return err
	}
	exit, err := environ.ExitFromEpilog(env, now)
	if err != nil {
		return err
	}
	return explainUser(h.Epilog(r, exit), os.Geteuid(), h.ProcRoot)
}

// explainUser explains an error of an Epilog that does not run as root. With PrologFlags=RunInJob
// the Epilog is in the extern step. There Slurm 24.11 sometimes starts it while slurmstepd takes
// the job's user.
func explainUser(err error, uid int, procRoot string) error {
	if uid == 0 || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	why := ": in slurm.conf it belongs to Epilog=, with SlurmdUser=root"
	own, _ := os.ReadFile(filepath.Join(procRoot, "self", "cgroup")) // without cgroups no process is in a job's cgroup
	if _, inside := layout.InsideJob(own); inside {
		why = ", which Slurm does sometimes with PrologFlags=RunInJob"
	}
	return fmt.Errorf("the Epilog runs as user %d, not as root%s; a tracker of the job ends by itself after tracker.grace: %w", uid, why, err)
}

// identify returns the identity of the job of a hook of slurmd.
func identify(env environ.Env, now time.Time) (rt.Run, error) {
	r, err := environ.JobOfHook(env, now)
	if err != nil {
		return rt.Run{}, err
	}
	if c := env.Text("SLURM_SCRIPT_CONTEXT"); strings.HasSuffix(c, "_slurmctld") || strings.HasSuffix(c, "_task") {
		return rt.Run{}, fmt.Errorf("this hook runs as %s; in slurm.conf it belongs to Prolog= and Epilog=, which run on the node as root", c)
	}
	if r.Node == "" {
		r.Node = hostname()
	}
	return r, nil
}

// leaveJob moves this process out of the job's cgroup, in which PrologFlags=RunInJob starts it.
// Otherwise the tracker would be charged to the job and end with the job. procRoot is /proc.
// leaveJob does nothing outside a job's cgroup. If it fails, no tracker may start.
func leaveJob(procRoot string) error {
	own, err := os.ReadFile(filepath.Join(procRoot, "self", "cgroup"))
	if err != nil {
		return nil // without cgroups no process is in a job's cgroup
	}
	path, inside := layout.InsideJob(own)
	if !inside {
		return nil
	}
	mounts, err := cgroupfs.ReadMounts(procRoot)
	if err == nil {
		err = moveOut(own, mounts)
	}
	if err != nil {
		return fmt.Errorf("this hook runs in the job's own cgroup %s, where a tracker would be charged to the job and end with it, and cannot leave it: %w; the job is not tracked: take RunInJob out of PrologFlags in slurm.conf", path, err)
	}
	return nil
}

// moveOut moves this process to the cgroup of the trackers. own is its /proc/self/cgroup.
func moveOut(own []byte, mounts cgroupfs.Mounts) error {
	dir, err := layout.TrackerDir(own, mounts)
	if err != nil {
		return err
	}
	err = os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// disabled reports whether the file of the kill switch exists. An empty path is no switch.
func disabled(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// hostname returns the node's name, up to the first dot, for when Slurm does not set it.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}
