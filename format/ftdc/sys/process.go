package sys

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Process is a Statser of one process.
type Process struct {
	fs  FS
	pid string
}

// NewProcess returns a Statser of the process.
func NewProcess(fs FS, pid int) *Process { return &Process{fs, strconv.Itoa(pid)} }

// ProcessStats has the figures of a process, proc(5). Absent ones could not be read.
type ProcessStats struct {
	UserCPUSecs    *float64 // /proc/<pid>/stat utime
	SystemCPUSecs  *float64 // stime
	ElapsedSecs    *float64 // since its start: /proc/uptime - starttime
	Threads        *float64 // num_threads
	MajorFaults    *float64 // majflt
	VirtualMB      *float64 // vsize, 10^6 bytes
	ResidentMB     *float64 // rss, 10^6 bytes
	OpenFiles      *float64 // entries of /proc/<pid>/fd
	ReadMB         *float64 // read_bytes of /proc/<pid>/io, 10^6 bytes
	WrittenMB      *float64 // write_bytes
	VoluntarySw    *float64 // voluntary_ctxt_switches of /proc/<pid>/status
	NonvoluntarySw *float64 // nonvoluntary_ctxt_switches
}

// Stats returns ProcessStats.
func (p *Process) Stats() any {
	var s ProcessStats
	if stat, ok := procfile.ParseStat(p.fs.read(p.pid, "stat")); ok {
		s.MajorFaults = in(stat.MajorFaults, 1)
		s.UserCPUSecs, s.SystemCPUSecs = in(stat.Own[0], ticksPerSecond), in(stat.Own[1], ticksPerSecond)
		s.Threads = in(stat.Threads, 1)
		s.VirtualMB, s.ResidentMB = in(stat.VSize, 1e6), in(stat.RSS, 1e6/float64(os.Getpagesize()))
		if up := number(bytes.Fields(p.fs.read("uptime")), 0, 1); up != nil {
			*up -= float64(stat.Start) / ticksPerSecond
			s.ElapsedSecs = up
		}
	}
	io := table(p.fs.read(p.pid, "io"))
	s.ReadMB, s.WrittenMB = number(io["read_bytes"], 0, 1e6), number(io["write_bytes"], 0, 1e6)
	status := table(p.fs.read(p.pid, "status"))
	s.VoluntarySw = number(status["voluntary_ctxt_switches"], 0, 1)
	s.NonvoluntarySw = number(status["nonvoluntary_ctxt_switches"], 0, 1)
	if fds, err := os.ReadDir(filepath.Join(p.fs.root, p.pid, "fd")); err == nil {
		s.OpenFiles = in(uint64(len(fds)), 1)
	}
	return s
}
