package main

import (
	"os"
	"os/user"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/internal/hostfacts"
	"github.com/resource-tracker/rt/slurm/environ"
)

// newRun returns the identity of the run, for the spool and for the samples. pid is 0 if no
// process tree is tracked.
func newRun(s settings, pid int, started time.Time) rt.Run {
	run := rt.Run{Identity: rt.Identity{Start: started}, Ending: rt.Ending{State: rt.StateRunning}}
	if insideSlurm() {
		if task, err := environ.FromTask(environ.NewEnv(os.Environ()), started); err == nil {
			run = task
		}
	}
	if run.Node == "" {
		run.Node, _ = os.Hostname() // empty after an error
	}
	if run.User == "" {
		if u, err := user.Current(); err == nil {
			run.User = u.Username
		}
	}
	run.UID, run.GID = rt.Some(uint64(os.Getuid())), rt.Some(uint64(os.Getgid()))
	run.BootID, _ = host.BootID(s.procfs)
	run.Meta.Merge(s.meta)
	run.Command = s.command
	run.Interval = s.interval.Seconds()
	run.TrackerVersion = rt.Version
	if pid != 0 {
		run.PID.Set(uint64(pid))
	}
	return run
}

// readHost collects the facts of the host except those that the user suppresses:
// TRACKER_HOST_IP=0, or empty, suppresses host_ip.
func readHost(s settings) rt.Host {
	return hostfacts.Local(host.NewRoots(s.procfs, s.sysfs), os.LookupEnv)
}
