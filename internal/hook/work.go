package hook

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/hook"
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
	return h.Epilog(r, exit)
}

// identify returns the Run of a hook of slurmd.
func identify(env environ.Env, now time.Time) (rt.Run, error) {
	r, err := environ.FromHook(env, now)
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

// outsideJob returns an error if a process is in a job's cgroup. cgroup is the path of the
// process's /proc/<pid>/cgroup.
func outsideJob(cgroup string) error {
	own, err := os.ReadFile(cgroup)
	if err != nil {
		return nil // without cgroups no process is in a job's cgroup
	}
	if path, inside := layout.InsideJob(own); inside {
		return fmt.Errorf("this hook runs in the job's own cgroup %s, where a tracker would be charged to the job and die with it: take RunInJob out of PrologFlags in slurm.conf", path)
	}
	return nil
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
