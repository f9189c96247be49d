package proc

import (
	"bytes"
	"os"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Orphans are the processes of a tree that have lost their parent. This process has become
// the parent (PR_SET_CHILD_SUBREAPER of prctl(2)) and must wait for them.
type Orphans interface {
	// IsOwn reports whether this process has started its child pid.
	IsOwn(pid int) bool
	// Ended appends the orphans to dst that this process has waited for since the last call. They are no more in /proc.
	Ended(dst []EndedProcess) []EndedProcess
}

// EndedProcess is the last reading of a process: as a zombie.
type EndedProcess struct {
	PID         int
	IsRead      bool      // without it a member keeps its last reading, because Own has the time of its children too
	Start       uint64    // ticks after boot
	Own, Waited [2]uint64 // as in procfile.Stat
}

// ReadZombie returns the last reading of the child pid of this process, which has ended.
func ReadZombie(pid int) (EndedProcess, error) {
	s, err := procfile.ReadStat("/proc", pid)
	return EndedProcess{PID: pid, IsRead: err == nil, Start: s.Start, Own: s.Own, Waited: s.Waited}, err
}

// AddOrphans makes the orphans members of the tree. It has no effect if the tree's procfs has other pids than
// this process sees.
func (t *Tree) AddOrphans(o Orphans) { t.orphans = o }

// reaper returns the pid of this process if it is the parent of the orphans, else 0.
func (t *Tree) reaper() int {
	if t.orphans == nil || !t.isOwnProc {
		return 0
	}
	return os.Getpid()
}

// isBelow reports whether the process m, which is not a member, has a member as its parent or is an orphan.
func (t *Tree) isBelow(m *member) bool {
	if t.has(m.ppid) {
		return true
	}
	return m.ppid != 0 && m.ppid == t.reaper() && !t.orphans.IsOwn(m.pid)
}

// takeEnded gives the orphans that have ended their last reading. dropEnded then drops them. The time of one that
// was never a member is added.
func (t *Tree) takeEnded() {
	if t.reaper() == 0 {
		return
	}
	t.ended = t.orphans.Ended(t.ended[:0])
	for i := range t.ended {
		e := &t.ended[i]
		k, isMember := t.at[e.PID]
		isOther := isMember && e.IsRead && t.procs[k].start != e.Start
		if !isMember || isOther {
			t.lostCPU.add(e.Own)
			t.lostCPU.add(e.Waited)
			continue
		}
		m := &t.procs[k]
		m.isOrphan, m.alive = true, true // its own children ended before it
		if e.IsRead {
			m.own = e.Own
			m.waited.update(e.Waited)
		}
	}
}

// isOwnProc reports whether proc shows the processes with the pids that this process sees: then
// /proc/self/status has one pid (NSpid, Linux 4.1). It is false for a proc of another
// container, and for recorded files.
func (p *peek) isOwnProc(proc string) bool {
	b, err := p.path(proc).str("/self/status").read()
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(b, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	return len(bytes.Fields(line)) == 1
}
