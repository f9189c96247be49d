package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/internal/jobcgroup"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm"
)

// jobSource reads the cgroup of the Slurm job that we run in. The job outlives us,
// so nothing waits for its events, and where it is short of memory no snapshot is taken.
type jobSource struct {
	*cgroup.Job
	quit chan struct{}
}

// newJobSource looks where Slurm may have put the job's cgroup.
func newJobSource(s settings, run *rt.Run) (jobSource, error) {
	mounts, err := cgroupMounts(s)
	if err != nil {
		return jobSource{}, err
	}
	job, err := cgroup.NewJob(jobcgroup.Candidates(run, mounts), cgroup.Options{ProcRoot: s.procfs, NoShort: true})
	if err != nil {
		return jobSource{}, fmt.Errorf("watch the cgroup of job %s: %w", run.Label(), err)
	}
	j := jobSource{job, make(chan struct{})}
	go j.drain()
	return j, nil
}

// drain takes the events, so that the watcher never waits.
func (j jobSource) drain() {
	defer recovery.Handle(warn)
	for {
		select {
		case <-j.Events():
		case <-j.quit:
			return
		}
	}
}

// Close ends the watching.
func (j jobSource) Close() error {
	close(j.quit)
	return j.Job.Close()
}

// Name is what the ledger calls the source.
func (jobSource) Name() string { return "cgroup" }

// cgroupMounts is the kernel's list, or what lies below --path.cgroupfs: a v2
// hierarchy, or one directory for each v1 controller.
func cgroupMounts(s settings) (slurm.Mounts, error) {
	if s.cgroupfs == "" {
		table, err := cgroup.Mounts(s.procfs)
		return slurm.Mounts{V1: table.V1, V2: table.V2}, err
	}
	root, err := filepath.Abs(s.cgroupfs)
	if err != nil {
		return slurm.Mounts{}, fmt.Errorf("--path.cgroupfs %s: %w", s.cgroupfs, err)
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return slurm.Mounts{V2: root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return slurm.Mounts{}, fmt.Errorf("--path.cgroupfs: %w", err)
	}
	v1 := map[string]string{}
	for _, e := range entries {
		v1[e.Name()] = filepath.Join(root, e.Name())
	}
	return slurm.Mounts{V1: v1}, nil
}
