package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

const (
	// treeWait is the maximum time that a reading waits for the PSS of a tree. treeTime is
	// the CPU time that reading the PSS may take.
	treeWait = 500 * time.Millisecond
	treeTime = 100 * time.Millisecond
)

// treeMemory reads the PSS of a tree's processes, at the pace of scanPace.
type treeMemory struct {
	pss   pssReader
	pace  scanPace
	whole bool // the kernel lets go of the lock of a process that waits for it, see hasShortLocks
}

// ReadPSS makes the following readings of the tree have its PSS, within a budget of CPU time: of all
// processes, or none.
func (t *Tree) ReadPSS() {
	t.memory = &treeMemory{pss: pssReader{root: t.fs.Proc, wait: treeWait, most: treeTime, hasCPU: true}, whole: hasShortLocks()}
}

// hasShortLocks reports whether the kernel releases the mmap lock while it reads smaps_rollup, if the process
// waits for the lock (Linux 5.10).
func hasShortLocks() bool {
	const major, minor = 5, 10
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	v := parseVersion(unix.ByteSliceToString(name.Release[:]))
	return slices.Compare(v[:], []int{major, minor}) >= 0
}

// parseVersion returns the first two numbers of a kernel's release, "5.10.0-8-amd64"; 0 for one that is missing.
func parseVersion(release string) (v [2]int) {
	_, _ = fmt.Sscanf(release, "%d.%d", &v[0], &v[1]) // what is missing stays 0
	return v
}

// readPSS sets r.PSS if it is due and all processes can be read. boot is the time of the reading.
func (t *Tree) readPSS(r *rt.TreeReading, boot int64) {
	m := t.memory
	if m == nil || boot < m.pace.next || !m.pss.free() {
		return
	}
	if !m.list(t.procs) || !m.pss.run() {
		return
	}
	m.pace.scanned(boot, m.pss.took, len(t.procs))
	var sum uint64
	for i := range m.pss.list {
		pss, isRead := m.pss.list[i].pss.Get()
		if !isRead && !t.hasEnded(&m.pss.list[i]) {
			return
		}
		sum += pss
	}
	r.PSS.Set(sum)
}

// list fills the list of the pssReader. It returns false if reading it would take too long.
func (m *treeMemory) list(members []member) bool {
	var all float64
	for i := range members {
		p := &members[i]
		if p.rss == 0 || p.isShared { // a zombie, or counted with its parent
			continue
		}
		cost := float64(p.rss*pageSize) * pssPerByte
		all += cost
		if !m.whole && cost > float64(pssTime) {
			return false
		}
		m.pss.list = append(m.pss.list, slowRead{pid: p.pid, start: p.start})
	}
	return all <= float64(treeTime)
}

// slowFailure returns the error of reading PSS.
func (t *Tree) slowFailure() error {
	if t.memory == nil {
		return nil
	}
	return t.memory.pss.failed()
}

// hasEnded reports whether a process that could not be read has no memory any more.
func (t *Tree) hasEnded(p *slowRead) bool {
	now, err := t.look(p.pid)
	isOther := err == nil && (now.start != p.start || now.rss == 0)
	return isOther || errors.Is(err, fs.ErrNotExist)
}

// markShared marks the members that share the memory of their parent, between vfork(2) and execve(2): it would
// count twice. A new member that does not is not asked again.
func (t *Tree) markShared() {
	for i := range t.procs {
		m := &t.procs[i]
		isAsked := m.isShared || !m.isOld
		m.isOld = true
		m.isShared = isAsked && m.rss > 0 && t.has(m.ppid) && sharesMemory(m.pid, m.ppid)
	}
}

// sharesMemory reports whether two processes have the same memory, see kcmp(2). It is false if that cannot be
// known.
func sharesMemory(pid, other int) bool {
	const vm = 1 // KCMP_VM, linux/kcmp.h
	differ, _, errno := unix.RawSyscall6(unix.SYS_KCMP, uintptr(pid), uintptr(other), vm, 0, 0, 0)
	return errno == 0 && differ == 0
}
