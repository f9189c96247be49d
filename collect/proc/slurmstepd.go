package proc

import (
	"bytes"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/layout"
)

// stepd is the name of Slurm's daemon of a step (/proc/<pid>/comm). The daemon is not a
// process of the job, but it waits for the step's tasks. Its /proc/<pid>/io then includes
// the bytes that the tasks have read and written.
const stepd = "slurmstepd"

// isDaemon distinguishes a slurmstepd from its child that has not executed the task's program
// yet. Such a child has the same name and becomes a process of the job.
func (r *reapers) isDaemon(pid int, root string) bool {
	stat, err := r.peek.stat(root, pid)
	if err != nil || string(stat.Comm) != stepd {
		return false
	}
	parent, err := r.peek.stat(root, stat.PPID)
	return err != nil || string(parent.Comm) != stepd
}

// isSlurms reports whether root started a process that has the title of a step's slurmstepd.
func (r *reapers) isSlurms(pid int, root string) bool {
	return r.title(pid, root) != "" && layout.IsRoots(root, pid)
}

// title returns the step of a slurmstepd, which is in its command line.
func (r *reapers) title(pid int, root string) string {
	b, _ := r.peek.path(root).num(pid).str("/cmdline").read()
	return string(titleStep(b))
}

// titleStep parses the step of "slurmstepd: [12.batch]".
func titleStep(title []byte) []byte {
	_, id, ok := bytes.Cut(title, []byte(": ["))
	id, _, closed := bytes.Cut(id, []byte("]"))
	dot := bytes.LastIndexByte(id, '.')
	if !ok || !closed || dot < 0 {
		return nil
	}
	return id[dot+1:]
}

// dropEndedDaemons updates the list of the slurmstepds without a scan.
func (j *JobProcs) dropEndedDaemons() {
	j.daemons = slices.DeleteFunc(j.daemons, func(pid int) bool {
		stat, err := j.peek.stat(j.fs.Proc, pid)
		return err != nil || string(stat.Comm) != stepd
	})
}

// leaveOutDaemons subtracts the slurmstepds from the processes of the job and of their steps. If
// the list may lack one that began after the last scan, the number of processes is not known.
func (j *JobProcs) leaveOutDaemons(s *rt.Snapshot) {
	if !j.isAmong {
		return
	}
	if n, ok := s.Job.Pids.Get(); ok {
		s.Job.Pids.Set(n - min(n, uint64(len(j.daemons))))
	}
	if j.reapers.isAnyNew(j.daemons, "") {
		s.Job.Pids.Clear()
	}
	for i := range s.Steps {
		r := &s.Steps[i]
		n, ok := r.Pids.Get()
		isStep := ok && !r.Ended && !r.Task.Valid()
		if !isStep {
			continue
		}
		r.Pids.Set(n - min(n, j.reapers.among(j.daemons, r.Step)))
		if j.reapers.isAnyNew(j.daemons, r.Step) {
			r.Pids.Clear()
		}
	}
}
