package proc

import "github.com/resource-tracker/rt"

// treeIO adds up the storage bytes of a tree's processes, /proc/<pid>/io. The kernel adds
// the bytes of a process to its parent's when the parent waits for it. So the sum over the
// living members includes the ended ones. If no member waits for a process, its bytes after
// its last reading are missing: the sums are a lower bound.
type treeIO struct {
	isOn, isRead bool     // isRead: a member was read
	lost         counters // bytes of members that no member waited for
	shown        counters // the last reading, which the next one never falls below
}

// ReadIO makes the following readings of the tree have its storage bytes.
func (t *Tree) ReadIO() { t.io.isOn = true }

// readIO reads the bytes of a member. The bytes of a process of another user stay as they are.
func (t *Tree) readIO(m *member) {
	if !t.io.isOn {
		return
	}
	b, err := t.peek.path(t.fs.Proc).num(m.pid).str("/io").read()
	if err != nil {
		return
	}
	if now, ok := parsePidIO(b); ok {
		m.io.update(now)
		t.io.isRead = true
	}
}

// endIO adds the bytes of an ended member to its nearest living ancestor, nil for none.
func (t *Tree) endIO(m, ancestor *member) {
	if ancestor != nil {
		ancestor.io.ended.add(m.io.total())
	} else {
		t.io.lost.add(m.io.total())
	}
}

// publishIO sets the sums.
func (t *Tree) publishIO(r *rt.TreeReading) {
	if !t.io.isRead {
		return
	}
	sum := t.io.lost
	for i := range t.members {
		sum.add(t.members[i].io.total())
	}
	for k := range sum {
		t.io.shown[k] = max(t.io.shown[k], sum[k])
	}
	r.ReadBytes.Set(t.io.shown[0])
	r.WriteBytes.Set(t.io.shown[1])
}
