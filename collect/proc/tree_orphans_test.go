package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// fosterParent is an Orphans whose own children have pids from 900 on.
type fosterParent struct{ ended []EndedProcess }

func (f *fosterParent) IsOwn(pid int) bool { return pid >= 900 }

func (f *fosterParent) Ended(dst []EndedProcess) []EndedProcess {
	dst = append(dst, f.ended...)
	f.ended = nil
	return dst
}

// end is the last reading of a process of the world, as put has started it.
func (f *fosterParent) end(w *world, pid, own, waited int) {
	w.kill(pid)
	o, c := uint64(own), uint64(waited)
	f.ended = append(f.ended, EndedProcess{PID: pid, IsRead: true, Start: uint64(1000 + pid), Own: [2]uint64{o, 2 * o}, Waited: [2]uint64{c, 2 * c}})
}

// endUnread is the end of a process that could not be read: only its use, with its children's, is known.
func (f *fosterParent) endUnread(w *world, pid, all int) {
	w.kill(pid)
	o := uint64(all)
	f.ended = append(f.ended, EndedProcess{PID: pid, Own: [2]uint64{o, 2 * o}})
}

// An orphan counts while it lives and after this process has waited for it, once.
func TestTreeOrphans(t *testing.T) {
	self := os.Getpid()
	for _, children := range []bool{true, false} {
		dir := t.TempDir()
		w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), children: children, procs: map[int]*process{}}
		var orphans fosterParent
		tree := NewTree(w.root, 100)
		tree.AddOrphans(&orphans)
		for _, step := range []struct {
			name           string
			do             func()
			used, children int
		}{
			{"the root", func() { w.put(self, 1, 500, 500); w.put(100, self, 10, 0) }, 10, 0},
			{"an orphan, and an own child", func() { w.put(200, self, 5, 0); w.put(901, self, 700, 0) }, 15, 1},
			{"the orphan ends", func() { orphans.end(w, 200, 9, 3) }, 22, 0},
			{"it stays counted", func() {}, 22, 0},
			{"one that no reading has", func() { orphans.end(w, 300, 3, 1) }, 26, 0},
			{"one with a child", func() { w.put(500, self, 5, 0); w.put(501, 500, 3, 0) }, 34, 2},
			{"both end, the child is waited for", func() { w.kill(501); orphans.end(w, 500, 6, 4) }, 36, 0},
			{"again one with a child", func() { w.put(600, self, 1, 0); w.put(601, 600, 5, 0) }, 42, 2},
			{"both end, the child is not waited for", func() { w.kill(601); orphans.end(w, 600, 2, 0) }, 43, 0},
			{"a member loses its parent", func() { w.put(700, 100, 2, 0); w.put(701, 700, 3, 0) }, 48, 2},
			{"and lives on", func() { w.kill(700); w.put(100, self, 10, 2); w.put(701, self, 4, 0) }, 49, 1},
			{"and ends", func() { orphans.end(w, 701, 6, 0) }, 51, 0},
			{"a pid comes again before the reading", func() { w.put(800, self, 1, 0) }, 52, 1},
			{"as another orphan", func() { orphans.end(w, 800, 3, 0); w.put(800, self, 7, 0); w.procs[800].start = 7777 }, 61, 1},
			{"a member whose end cannot be read", func() { w.put(850, self, 2, 0) }, 63, 2},
			{"keeps its last reading", func() { orphans.endUnread(w, 850, 5) }, 63, 1},
		} {
			step.do()
			w.flush()
			write(t, w.root.Proc+"/self/status", "Name:\tx\nNSpid:\t1\n")
			if err := tree.Close(); err != nil { // flush creates the directory again
				t.Fatal(err)
			}
			var s rt.Snapshot
			if err := tree.Read(&s); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			user, system := s.Tree.CPUUserTicks.Or(0), s.Tree.CPUSystemTicks.Or(0)
			if user != uint64(step.used) || system != uint64(2*step.used) || s.Tree.Children != rt.Some(uint64(step.children)) {
				t.Errorf("children files %v, %s: %d and %d ticks, %v children, want %d, %d, %d",
					children, step.name, user, system, s.Tree.Children, step.used, 2*step.used, step.children)
			}
		}
	}
}
