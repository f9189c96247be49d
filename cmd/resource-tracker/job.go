package main

import (
	"errors"
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
	quit   chan struct{}
	unseen rt.JobPhase // of a reading without the job's cgroup
}

// errNoCgroups: there is no place where the cgroup of a job can be.
var errNoCgroups = errors.New("no cgroup hierarchy is mounted")

// newJobSource looks for the job's cgroup in all places that Slurm may use.
func newJobSource(s settings, run *rt.Run) (jobSource, error) {
	mounts, err := cgroupMounts(s)
	if err != nil {
		return jobSource{}, err
	}
	candidates := layout.Candidates(run, mounts)
	if len(candidates) == 0 {
		return jobSource{}, fmt.Errorf("find the cgroup of job %s: %w", run.Label(), errNoCgroups)
	}
	job, err := cgroup.NewJob(candidates, layout.Slurm{}, cgroup.Options{ProcRoot: s.procfs, NoNearLimit: true})
	if err != nil {
		return jobSource{}, fmt.Errorf("watch the cgroup of job %s: %w", run.Label(), err)
	}
	j := jobSource{job, make(chan struct{}), rt.JobNone}
	if s.scope == rt.ScopeJob {
		j.unseen = rt.JobGone
	}
	go j.drain()
	return j, nil
}

// Read implements collect.Source. This process is in the job, so the job has begun. A cgroup that
// does not exist cannot be seen here, for example in a container. The figures of the job are then
// not read; they are not zero.
func (j jobSource) Read(s *rt.Snapshot) error {
	err := j.Job.Read(s)
	if s.Job.Phase == rt.JobPending {
		s.Job = rt.JobReading{Phase: j.unseen}
	}
	return err
}

// unseenJob is the source of a job without cgroups: its figures are null.
type unseenJob struct{}

// Name returns the name of the source in the ledger.
func (unseenJob) Name() string { return "cgroup" }

// Read implements collect.Source.
func (unseenJob) Read(s *rt.Snapshot) error {
	s.Job = rt.JobReading{Phase: rt.JobGone}
	return nil
}

// Close does nothing.
func (unseenJob) Close() error { return nil }

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
