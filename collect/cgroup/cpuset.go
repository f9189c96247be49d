package cgroup

import (
	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// cpusetLooks is at how many readings after the job appeared its CPUs are read: the
// resource manager sets them a moment after it made the directory.
const cpusetLooks = 5

// cpusetLog is which CPUs and NUMA nodes of the job were logged.
type cpusetLog struct {
	looks   int // at how many readings they are still read
	allowed string
}

// logCPUSet logs which CPUs and NUMA nodes the job may use, as the kernel lists them
// ("0-3,8"), and again if one of the first readings differs.
func (s *state) logCPUSet() {
	if s.cpuset.looks == 0 {
		return
	}
	s.cpuset.looks--
	dir, suffix := s.tasks.DirOf("cpuset"), ""
	if s.version == 2 {
		dir, suffix = s.tasks.DirOf(cgroupfs.Unified), ".effective"
	}
	if dir == "" {
		return
	}
	cpus, mems := procfile.Text(dir, "cpuset.cpus"+suffix), procfile.Text(dir, "cpuset.mems"+suffix)
	allowed := "cpus=" + cpus + " mems=" + mems
	if cpus != "" && allowed != s.cpuset.allowed {
		s.cpuset.allowed = allowed
		s.Note(rt.Event{Kind: "job", Name: "cpuset", Status: "ok", Detail: allowed})
	}
}
