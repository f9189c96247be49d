package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Tree reads a process and its descendants.
//
// Who belongs to it: the root, and whoever has a member as its parent. A member
// stays one when its parent ends and the kernel gives it to another.
//
// The CPU time of the tree is that of all who ever belonged to it. A process's
// stat shows its own time and the time of the children that it has waited for, so
// the sum of both over the living is the whole truth as long as each process that
// ends is waited for within the tree. When a member is gone, its last seen time
// should therefore turn up in the waited-for time of its nearest living ancestor.
// What does not (nobody waited, or a process outside the tree did) is kept as
// lost time and counted for ever. It may turn up late, because a parent is always
// read before its children: what is missing at first is a debt of the ancestor,
// counted meanwhile, that its next rise settles; only what is missing then is
// lost. So nothing is counted twice and, apart from what a process did after it
// was last seen and before nobody waited for it, nothing is left out.
type Tree struct {
	fs       FS
	root     int
	pageSize uint64

	members []member    // a parent always before its children
	at      map[int]int // pid -> place in members
	known   bool        // the root has been seen
	lost    counters
	shown   counters // what the last reading said: the floor of the next

	scan   bool // the kernel has no children files: every process is looked at
	procs  pidDir
	pids   []int    // scratch: children, or all processes
	tids   []int    // scratch: threads of one process
	strays []member // scratch: processes that are not members
	list   []byte   // scratch: a directory's records
	peek   peek
}

// member is a process of the tree.
type member struct {
	pid, ppid   int
	start       uint64
	alive       bool
	own, waited counters
	rise        counters // of waited since the last reading
	gone        counters // of descendants that went since the last reading
	debt        counters // of descendants that went before and have not turned up in waited
	rss         uint64   // pages
}

func (m *member) total() counters {
	t := m.own
	t.add(m.waited)
	t.add(m.debt)
	return t
}

// NewTree returns the source of Snapshot.Tree for the tree below the process pid.
func NewTree(fs FS, pid int) *Tree {
	return &Tree{
		fs: fs, root: pid, pageSize: uint64(os.Getpagesize()),
		at: map[int]int{}, procs: pidDir{path: fs.Proc},
	}
}

// Name is what the ledger calls the source.
func (t *Tree) Name() string { return "tree" }

// Close gives the descriptor back.
func (t *Tree) Close() error { return t.procs.close() }

// Read fills s.Tree. A root that was never there is an error and leaves all of it
// absent. Once the root is gone, the CPU time stays, and grows while descendants
// live on; the number of children is absent from then on.
func (t *Tree) Read(s *rt.Snapshot) error {
	if !t.known {
		m, err := t.look(t.root)
		if err != nil {
			return fmt.Errorf("the tracked process %d cannot be read: %w", t.root, err)
		}
		t.known = true
		t.add(m)
	} else {
		t.refresh()
		t.bury()
	}
	if err := t.discover(); err != nil {
		return err
	}
	t.publish(&s.Tree)
	return nil
}

// PIDs appends the pids of the processes that the newest Read found to dst.
func (t *Tree) PIDs(dst []int) []int {
	for i := range t.members {
		dst = append(dst, t.members[i].pid)
	}
	return dst
}

// look reads one process. One that is not there is fs.ErrNotExist.
func (t *Tree) look(pid int) (member, error) {
	p, err := t.peek.stat(t.fs.Proc, pid)
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist
	}
	return member{
		pid: pid, ppid: p.PPID, start: p.Start, alive: true,
		own: p.Own, waited: p.Waited, rss: p.RSS,
	}, err
}

// unread says that a process could not be read though it may be there: no descriptor
// or no memory is to be had. Who is gone is not there (ENOENT, ESRCH); to take the
// living for gone would count them twice, once now and once when they are read again.
func unread(err error) bool {
	return err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, errPidStat)
}

func (t *Tree) add(m member) {
	t.at[m.pid] = len(t.members)
	t.members = append(t.members, m)
}

// refresh reads the members again, parents first.
func (t *Tree) refresh() {
	for i := range t.members {
		m := &t.members[i]
		now, err := t.look(m.pid)
		if unread(err) {
			m.rise = counters{}
			continue
		}
		if err != nil || now.start != m.start {
			m.alive = false
			continue
		}
		for k := range m.rise {
			m.rise[k] = now.waited[k] - min(m.waited[k], now.waited[k])
		}
		m.ppid, m.own, m.waited, m.rss = now.ppid, now.own, now.waited, now.rss
	}
}

// bury hands the time of the members that are gone to their nearest living
// ancestors, settles what those owe, and forgets the dead.
func (t *Tree) bury() {
	for i := range t.members {
		if m := &t.members[i]; !m.alive {
			if a := t.ancestor(m); a != nil {
				a.gone.add(m.total())
			} else {
				t.lost.add(m.total())
			}
		}
	}
	clear(t.at)
	living := t.members[:0]
	for _, m := range t.members {
		if m.alive {
			t.settle(&m)
			t.at[m.pid] = len(living)
			living = append(living, m)
		}
	}
	t.members = living
}

// ancestor is the nearest living member above m, by the parents last seen.
func (t *Tree) ancestor(m *member) *member {
	for range t.members {
		i, ok := t.at[m.ppid]
		if !ok {
			return nil
		}
		if m = &t.members[i]; m.alive {
			return m
		}
	}
	return nil
}

// settle takes what m has waited for off what it owes. A tick is forgiven: the
// kernel cuts each figure down to whole ticks.
func (t *Tree) settle(m *member) {
	for k := range m.rise {
		rise := m.rise[k]
		paid := min(rise, m.debt[k])
		if unpaid := m.debt[k] - paid; unpaid > 1 {
			t.lost[k] += unpaid
		}
		rise -= paid
		m.debt[k] = m.gone[k] - min(rise, m.gone[k])
		m.gone[k], m.rise[k] = 0, 0
	}
}

func (t *Tree) publish(r *rt.TreeReading) {
	sum := t.lost
	var pages uint64
	for i := range t.members {
		sum.add(t.members[i].total())
		pages += t.members[i].rss
	}
	for k := range sum {
		t.shown[k] = max(t.shown[k], sum[k])
	}
	r.CPUUserTicks.Set(t.shown[0])
	r.CPUSystemTicks.Set(t.shown[1])
	r.RSS.Set(pages * t.pageSize)
	if _, ok := t.at[t.root]; ok {
		r.Children.Set(uint64(len(t.members) - 1))
	}
}
