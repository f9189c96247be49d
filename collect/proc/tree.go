package proc

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// Tree reads a process and its descendants.
//
// Its members are the root and each process with a member as its parent. A process remains a member
// when its parent ends and the kernel gives it another parent.
//
// The figures of the tree include all processes that were ever members, see processSet.
type Tree struct {
	named
	processSet
	root    int
	known   bool     // the root has been read
	shown   counters // ticks of the last reading; the next reading is never below them
	shownIO counters // the same of the bytes

	memory  *treeMemory    // nil: no PSS is read
	orphans Orphans        // nil: they leave the tree, unless they were members before
	ended   []EndedProcess // scratch

	scan      bool // the kernel has no children files: every process is read
	isOwnProc bool // procfs shows the PID namespace of this process
	dir       pidDir
	pids      []int    // scratch: children, or all processes
	tids      []int    // scratch: threads of one process
	strays    []member // scratch: processes that are not members
	list      []byte   // scratch: records of a directory
}

// NewTree returns the source of Snapshot.Tree for the tree below the process pid.
func NewTree(fs FS, pid int) *Tree {
	return &Tree{
		named: "tree", root: pid, dir: pidDir{file{path: fs.Proc}},
		processSet: processSet{fs: fs, at: map[int]int{}},
	}
}

// ReadIO makes the following readings of the tree have its storage bytes, /proc/<pid>/io. The bytes of a process of
// another user stay as they are.
func (t *Tree) ReadIO() { t.hasIO = true }

// Close closes the descriptors.
func (t *Tree) Close() error { return t.dir.Close() }

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
		t.join(m)
	} else {
		for i := range t.procs {
			t.refresh(&t.procs[i])
		}
		t.takeEnded()
		t.countEnded()
		t.dropEnded()
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
	for i := range t.procs {
		dst = append(dst, t.procs[i].pid)
	}
	return dst
}

// Running returns the number of processes that the last Read found, without the root and zombies.
func (t *Tree) Running() (n int) {
	for i := range t.procs {
		if m := &t.procs[i]; m.pid != t.root && m.rss > 0 {
			n++
		}
	}
	return n
}

// Has reports whether the last Read found the process pid in the tree.
func (t *Tree) Has(pid int) bool { return t.has(pid) }

// join makes a process that was read a member.
func (t *Tree) join(m member) {
	t.readIO(&m)
	t.add(m)
}

func (t *Tree) publish(r *rt.TreeReading) {
	cpu, io := t.sums()
	var pages uint64
	for i := range t.procs {
		if !t.procs[i].isShared {
			pages += t.procs[i].rss
		}
	}
	for k := range cpu {
		t.shown[k], t.shownIO[k] = max(t.shown[k], cpu[k]), max(t.shownIO[k], io[k])
	}
	r.CPUUserTicks.Set(t.shown[0])
	r.CPUSystemTicks.Set(t.shown[1])
	r.RSS.Set(pages * pageSize)
	if t.has(t.root) {
		r.Children.Set(uint64(len(t.procs) - 1))
	}
	if t.ioSeen {
		r.ReadBytes.Set(t.shownIO[0])
		r.WriteBytes.Set(t.shownIO[1])
	}
}
