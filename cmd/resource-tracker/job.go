package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/layout"
)

// jobSource reads the cgroup of the surrounding Slurm job, which outlives this process.
type jobSource struct {
	*cgroup.Job
	quit chan struct{}
}

// newJobSource looks for the job's cgroup in all places that Slurm may use.
func newJobSource(s settings, run *rt.Run) (jobSource, error) {
	mounts, err := cgroupMounts(s)
	if err != nil {
		return jobSource{}, err
	}
	job, err := cgroup.NewJob(layout.Candidates(run, mounts), layout.Slurm{}, cgroup.Options{ProcRoot: s.procfs, NoNearLimit: true})
	if err != nil {
		return jobSource{}, fmt.Errorf("watch the cgroup of job %s: %w", run.Label(), err)
	}
	j := jobSource{job, make(chan struct{})}
	go j.drain()
	return j, nil
}

// drain receives the events, so that the watcher never waits.
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

// Close ends the watch.
func (j jobSource) Close() error {
	close(j.quit)
	return j.Job.Close()
}

// Name is what the ledger calls the source.
func (jobSource) Name() string { return "cgroup" }

// cgroupMounts returns the kernel's mounts, or those in the directory of --path.cgroupfs.
func cgroupMounts(s settings) (cgroupfs.Mounts, error) {
	if s.cgroupfs == "" {
		return cgroupfs.ReadMounts(s.procfs)
	}
	root, err := filepath.Abs(s.cgroupfs)
	if err != nil {
		return cgroupfs.Mounts{}, fmt.Errorf("--path.cgroupfs %s: %w", s.cgroupfs, err)
	}
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return cgroupfs.Mounts{V2: root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return cgroupfs.Mounts{}, fmt.Errorf("--path.cgroupfs: %w", err)
	}
	v1 := map[string]string{}
	for _, e := range entries {
		v1[e.Name()] = filepath.Join(root, e.Name())
	}
	return cgroupfs.Mounts{V1: v1}, nil
}
