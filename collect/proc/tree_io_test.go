package proc

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// The bytes of a tree are the bytes of its processes and of the processes that they waited
// for, each once. They never fall.
func TestTreeIO(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), children: true, procs: map[int]*process{}}
	tree := NewTree(w.root, 100)
	tree.ReadIO()
	defer tree.Close()
	for _, step := range []struct {
		name  string
		bytes map[int]uint64 // read by each process, with the children that it waited for; half of it is written
		want  uint64
	}{
		{"the root", map[int]uint64{100: 10}, 10},
		{"a child", map[int]uint64{100: 10, 101: 6}, 16},
		{"both", map[int]uint64{100: 20, 101: 8}, 28},
		{"the child ended, the root has not waited yet", map[int]uint64{100: 20}, 28},
		{"it has", map[int]uint64{100: 28}, 28},
		{"another child", map[int]uint64{100: 28, 102: 40}, 68},
		{"it ended and nobody waited for it", map[int]uint64{100: 28}, 68},
		{"2 bytes of the root may be those of the child", map[int]uint64{100: 30}, 68},
		{"it stays", map[int]uint64{100: 40}, 78},
	} {
		w.procs = map[int]*process{}
		for pid := range step.bytes {
			w.put(pid, 100, 0, 0)
		}
		w.procs[100].parent = 1
		w.flush()
		for pid, n := range step.bytes {
			write(t, fmt.Sprintf("%s/%d/io", w.root.Proc, pid), fmt.Sprintf("rchar: 1\nread_bytes: %d\nwrite_bytes: %d\ncancelled_write_bytes: 0\n", n, n/2))
		}
		var s rt.Snapshot
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
		if s.Tree.ReadBytes != u64(step.want) || s.Tree.WriteBytes != u64(step.want/2) {
			t.Errorf("%s: read %v, written %v, want %d", step.name, s.Tree.ReadBytes, s.Tree.WriteBytes, step.want)
		}
	}
}

// Bytes that cannot be read are absent.
func TestTreeIOUnread(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), children: true, procs: map[int]*process{}}
	w.put(100, 1, 0, 0)
	w.flush()
	tree := NewTree(w.root, 100)
	tree.ReadIO()
	defer tree.Close()
	var s rt.Snapshot
	if err := tree.Read(&s); err != nil || s.Tree.ReadBytes.Valid() || s.Tree.WriteBytes.Valid() {
		t.Errorf("%+v, %v", s.Tree, err)
	}
}
