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

// work is what a program does with its hook.
type work func(h *slurmhook.Hook, env environ.Env, now time.Time) error

// startTracker is what rt-prolog does.
func startTracker(h *slurmhook.Hook, env environ.Env, now time.Time) error {
	r, err := identify(env, now)
	if err != nil {
		return err
	}
	return h.Prolog(r)
}

// stopTracker is what rt-epilog does.
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

// identify makes the Run of a node's hook.
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

// outsideJob fails where the process with that /proc/<pid>/cgroup is in a job's cgroup.
func outsideJob(cgroup string) error {
	own, err := os.ReadFile(cgroup)
	if err != nil {
		return nil // without cgroups there are none of jobs
	}
	if path, inside := layout.InsideJob(own); inside {
		return fmt.Errorf("this hook runs in the job's own cgroup %s, where a tracker would be charged to the job and die with it: take RunInJob out of PrologFlags in slurm.conf", path)
	}
	return nil
}

// disabled reports whether the kill switch is on: the file exists. Empty: there is no
// such switch.
func disabled(file string) bool {
	if file == "" {
		return false
	}
	_, err := os.Stat(file)
	return err == nil
}

// hostname is the node's name where Slurm does not give one: up to the first dot.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	for i := range len(name) {
		if name[i] == '.' {
			return name[:i]
		}
	}
	return name
}
