package proc

import (
	"errors"
	"fmt"
	"golang.org/x/sys/unix"
	"io/fs"

	"github.com/resource-tracker/rt"
)

// Tree reads a process and its descendants.
//
// Its members are the root and each process with a member as its parent. A process remains a member
// when its parent ends and the kernel gives it another parent.
//
// The CPU time of the tree is the time of all processes that were ever members. The stat of
// a process has its own time and the time of the children that it has waited for. The sum
// of both over the living members is exact while each process that ends is waited for by a
// member. So when a member ends, its last known time must appear in the waited-for time of
// its nearest living ancestor, see processCounter. If no process waited for the member, or
// a process outside the tree did, a part never appears. This part is kept as lost time and
// remains in the sum. So nothing is counted twice, and only the time that such a member
// used after its last reading is missing.
type Tree struct {
	named
	fs   FS
	root int

	members []member    // a parent always before its children
	at      map[int]int // pid -> index in members
	known   bool        // the root has been read
	lost    counters    // ticks of USER_HZ
	shown   counters    // the last reading, which the next one never falls below

	memory  *treeMemory // nil: no PSS is read
	io      treeIO
	orphans Orphans        // nil: they leave the tree, unless they were members before
	ended   []EndedProcess // scratch

	scan      bool // the kernel has no children files: every process is read
	isOwnProc bool // procfs shows the PID namespace of this process
	procs     pidDir
	pids      []int    // scratch: children, or all processes
	tids      []int    // scratch: threads of one process
	strays    []member // scratch: processes that are not members
	list      []byte   // scratch: records of a directory
	peek      peek
}

// member is a process of the tree.
type member struct {
	pid, ppid int
	start     uint64
	alive     bool
	own       counters       // user and system time, ticks of USER_HZ
	waited    processCounter // the same of the children that it has waited for
	io        processCounter // storage bytes, with the bytes of the children that it has waited for
	rss       uint64         // pages
	isOld     bool           // it was a member in an earlier reading
	isOrphan  bool           // it has ended, and this process has waited for it
	isShared  bool           // its memory is its parent's, see markShared
}

func (m *member) total() counters {
	t := m.own
	t.add(m.waited.total())
	return t
}

// NewTree returns the source of Snapshot.Tree for the tree below the process pid.
func NewTree(fs FS, pid int) *Tree {
	return &Tree{
		named: "tree", fs: fs, root: pid,
		at: map[int]int{}, procs: pidDir{file{path: fs.Proc}},
	}
}

// Close closes the descriptors.
func (t *Tree) Close() error {
	if t.memory != nil {
		t.memory.pss.close()
	}
	return t.procs.Close()
}

// Read fills s.Tree. A root that never existed is an error, and all of s.Tree is then
// absent. After the end of the root the CPU time remains, and grows while descendants
// live; the number of children is absent from then on.
func (t *Tree) Read(s *rt.Snapshot) error {
	if !t.known {
		m, err := t.look(t.root)
		if err != nil {
			return fmt.Errorf("the tracked process %d cannot be read: %w", t.root, err)
		}
		t.known = true
		t.isOwnProc = t.peek.isOwnProc(t.fs.Proc)
		t.add(m)
	} else {
		t.refresh()
		t.takeEnded()
		t.removeEnded()
	}
	if err := t.discover(); err != nil {
		return err
	}
	t.markShared()
	t.publish(&s.Tree)
	t.readPSS(&s.Tree, s.Boot)
	return t.slowFailure()
}

// PIDs appends the pids of the processes that the last Read found to dst.
func (t *Tree) PIDs(dst []int) []int {
	for i := range t.members {
		dst = append(dst, t.members[i].pid)
	}
	return dst
}

// Running returns the number of processes that the last Read found, without the root and zombies.
func (t *Tree) Running() (n int) {
	for i := range t.members {
		if m := &t.members[i]; m.pid != t.root && m.rss > 0 {
			n++
		}
	}
	return n
}

// Has reports whether the last Read found the process pid in the tree.
func (t *Tree) Has(pid int) bool {
	_, ok := t.at[pid]
	return ok
}

// look reads one process. The error is fs.ErrNotExist if the process does not exist.
func (t *Tree) look(pid int) (member, error) {
	p, err := t.peek.stat(t.fs.Proc, pid)
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	return member{
		pid: pid, ppid: p.PPID, start: p.Start, alive: true,
		own: p.Own, waited: processCounter{now: p.Waited}, rss: p.RSS,
	}, err
}

// isUnread reports whether err means that a process could not be read though it may exist:
// there is no free descriptor or no memory. A process that has ended gives ENOENT or ESRCH.
// A living process that counts as ended would count twice: now, and when it is read again.
func isUnread(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, errPidStat)
}

func (t *Tree) add(m member) {
	t.readIO(&m)
	t.at[m.pid] = len(t.members)
	t.members = append(t.members, m)
}

// refresh reads the members again, parents first.
func (t *Tree) refresh() {
	for i := range t.members {
		m := &t.members[i]
		now, err := t.look(m.pid)
		if isUnread(err) {
			continue
		}
		if err != nil || now.start != m.start {
			m.alive = false
			continue
		}
		m.waited.update(now.waited.now)
		m.ppid, m.own, m.rss = now.ppid, now.own, now.rss
		t.readIO(m)
	}
}

// removeEnded adds the time of ended members to the counters of their nearest living
// ancestors, reconciles these counters, and drops the ended members.
func (t *Tree) removeEnded() {
	for i := range t.members {
		m := &t.members[i]
		if m.alive {
			continue
		}
		a := t.ancestor(m)
		if a != nil {
			a.waited.ended.add(m.total())
		} else {
			t.lost.add(m.total())
		}
		t.endIO(m, a)
	}
	clear(t.at)
	n := len(t.members)
	living := t.members[:0]
	for _, m := range t.members {
		if !m.alive {
			continue
		}
		for k, lost := range m.waited.reconcile() {
			if lost > 1 { // the kernel rounds each figure down to whole ticks
				t.lost[k] += lost
			}
		}
		t.io.lost.add(m.io.reconcile())
		if m.isOrphan {
			t.lost.add(m.total())
			t.endIO(&m, nil)
			continue
		}
		t.at[m.pid] = len(living)
		living = append(living, m)
	}
	clear(t.members[len(living):n])
	t.members = living
}

// ancestor returns the nearest living ancestor of m, according to the parents last read.
func (t *Tree) ancestor(m *member) *member {
	for range t.members {
		i, ok := t.at[m.ppid]
		if !ok {
			return nil
		}
		m = &t.members[i]
		if m.alive {
			return m
		}
	}
	return nil
}

func (t *Tree) publish(r *rt.TreeReading) {
	sum := t.lost
	var pages uint64
	for i := range t.members {
		sum.add(t.members[i].total())
		if !t.members[i].isShared {
			pages += t.members[i].rss
		}
	}
	for k := range sum {
		t.shown[k] = max(t.shown[k], sum[k])
	}
	r.CPUUserTicks.Set(t.shown[0])
	r.CPUSystemTicks.Set(t.shown[1])
	r.RSS.Set(pages * pageSize)
	if _, ok := t.at[t.root]; ok {
		r.Children.Set(uint64(len(t.members) - 1))
	}
	t.publishIO(r)
}
