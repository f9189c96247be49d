package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// world is a fixture of processes. Times are ticks of user time; system time is
// always twice as much.
type world struct {
	t        *testing.T
	root     FS
	children bool // the kernel has children files
	procs    map[int]*process
}

type process struct {
	parent, start     int
	own, waited, size int
}

// put makes or changes a process.
func (w *world) put(pid, parent, own, waited int) {
	p := w.procs[pid]
	if p == nil {
		p = &process{start: 1000 + pid}
		w.procs[pid] = p
	}
	p.parent, p.own, p.waited, p.size = parent, own, waited, pid
}

func (w *world) kill(pid int) { delete(w.procs, pid) }

// flush writes the world out.
func (w *world) flush() {
	if err := os.RemoveAll(w.root.Proc); err != nil {
		w.t.Fatal(err)
	}
	write(w.t, w.root.Proc+"/stat", "")
	for pid, p := range w.procs {
		dir := fmt.Sprintf("%s/%d", w.root.Proc, pid)
		write(w.t, dir+"/stat", fmt.Sprintf("%d (a) b (c)) S %d 1 1 0 -1 4194304 98 0 0 0 %d %d %d %d 20 0 1 0 %d 3133440 %d 18446744073709551615 1 1\n",
			pid, p.parent, p.own, 2*p.own, p.waited, 2*p.waited, p.start, p.size))
		task := fmt.Sprintf("%s/task/%d", dir, pid)
		write(w.t, task+"/stat", "")
		if !w.children {
			continue
		}
		var list strings.Builder
		for c, q := range w.procs {
			if q.parent == pid {
				fmt.Fprintf(&list, "%d ", c)
			}
		}
		write(w.t, task+"/children", list.String())
	}
}

// treeSteps are changes of a tree with the root 100. Each has the time that the tree has
// used by then and the number of its children (-1: absent).
var treeSteps = []struct {
	name     string
	do       func(w *world)
	used     int
	children int
}{
	{"the root alone", func(w *world) { w.put(1, 0, 999, 999); w.put(100, 1, 10, 0); w.put(7, 1, 500, 0) }, 10, 0},
	{"a child and its child with a lower pid", func(w *world) { w.put(200, 100, 5, 0); w.put(50, 200, 3, 0) }, 18, 2},
	{"they work", func(w *world) { w.put(200, 100, 10, 0); w.put(50, 200, 7, 0) }, 27, 2},
	{"the grandchild works on, ends and is waited for", func(w *world) { w.kill(50); w.put(200, 100, 10, 9) }, 29, 1},
	{"a child that was never seen", func(w *world) { w.put(200, 100, 10, 14) }, 34, 1},
	{"the child ends and is waited for", func(w *world) { w.kill(200); w.put(100, 1, 11, 26) }, 37, 0},
	{"a child with a child", func(w *world) { w.put(300, 100, 4, 0); w.put(301, 300, 6, 0) }, 47, 2},
	{"the child ends, its own becomes an orphan", func(w *world) { w.kill(300); w.put(301, 1, 8, 0); w.put(100, 1, 11, 30) }, 49, 1},
	{"the orphan ends far from here", func(w *world) { w.kill(301) }, 49, 0},
	{"and stays counted", func(w *world) {}, 49, 0},
	{"a child that no process will wait for", func(w *world) { w.put(400, 100, 20, 0) }, 69, 1},
	{"ends", func(w *world) { w.kill(400) }, 69, 0},
	{"and is counted as lost", func(w *world) {}, 69, 0},
	{"later children count in full", func(w *world) { w.put(100, 1, 11, 35) }, 74, 0},
	{"a child is waited for late", func(w *world) { w.put(500, 100, 10, 0) }, 84, 1},
	{"it is gone before the parent's count shows it", func(w *world) { w.kill(500) }, 84, 0},
	{"then the count shows it, and more", func(w *world) { w.put(100, 1, 11, 46) }, 85, 0},
	{"a chain", func(w *world) { w.put(600, 100, 1, 0); w.put(601, 600, 2, 0); w.put(602, 601, 3, 0) }, 91, 3},
	{"ends at once, each waited for by the one above", func(w *world) { w.kill(600); w.kill(601); w.kill(602); w.put(100, 1, 11, 52) }, 91, 0},
	{"a chain again", func(w *world) {
		w.put(600, 100, 1, 0)
		w.put(601, 600, 2, 0)
		w.procs[600].start, w.procs[601].start = 9000, 9001
	}, 94, 2},
	{"ends from the top, and the orphan after it", func(w *world) { w.kill(600); w.kill(601); w.put(100, 1, 11, 53) }, 94, 0},
	{"which no member waits for", func(w *world) {}, 94, 0},
	{"a pid comes again as another process", func(w *world) { w.put(700, 100, 8, 0) }, 102, 1},
	{"of another process", func(w *world) {
		w.kill(700)
		w.put(700, 1, 5000, 0)
		w.procs[700].start = 7777
		w.put(100, 1, 11, 61)
	}, 102, 0},
	{"a child that will not wait for its own", func(w *world) { w.put(900, 100, 4, 0); w.put(901, 900, 3, 0) }, 109, 2},
	{"the lower one ends", func(w *world) { w.kill(901) }, 109, 1},
	{"the upper one ends while that is pending", func(w *world) { w.kill(900); w.put(100, 1, 11, 65) }, 109, 0},
	{"which never appears", func(w *world) {}, 109, 0},
	{"later children count in full again", func(w *world) { w.put(100, 1, 11, 70) }, 114, 0},
	{"the root ends and leaves a child", func(w *world) { w.put(800, 100, 5, 0) }, 119, 1},
	{"the time of which grows", func(w *world) { w.kill(100); w.put(800, 1, 6, 0) }, 120, -1},
	{"no process is left", func(w *world) { w.kill(800) }, 120, -1},
}

func TestTree(t *testing.T) {
	for _, children := range []bool{true, false} {
		t.Run(fmt.Sprintf("children files %v", children), func(t *testing.T) {
			dir := t.TempDir()
			w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), children: children, procs: map[int]*process{}}
			tree := NewTree(w.root, 100)
			for _, step := range treeSteps {
				step.do(w)
				w.flush()
				if err := tree.Close(); err != nil { // flush creates the directory again
					t.Fatal(err)
				}
				var s rt.Snapshot
				if err := tree.Read(&s); err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				user, system := s.Tree.CPUUserTicks.Or(0), s.Tree.CPUSystemTicks.Or(0)
				if user != uint64(step.used) || system != uint64(2*step.used) {
					t.Errorf("%s: %d user and %d system ticks, want %d and %d", step.name, user, system, step.used, 2*step.used)
				}
				n, ok := s.Tree.Children.Get()
				if ok != (step.children >= 0) || ok && n != uint64(step.children) {
					t.Errorf("%s: children %v, want %d", step.name, s.Tree.Children, step.children)
				}
				pids := tree.PIDs(nil)
				if ok && (len(pids) != step.children+1 || pids[0] != 100) {
					t.Errorf("%s: the processes are %v", step.name, pids)
				}
				for _, pid := range pids {
					if w.procs[pid] == nil {
						t.Errorf("%s: process %d is there no more", step.name, pid)
					}
				}
			}
			if tree.scan == children {
				t.Errorf("looked at every process: %v", tree.scan)
			}
		})
	}
}

func TestTreeRSS(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), procs: map[int]*process{}}
	w.put(10, 1, 0, 0)
	w.put(11, 10, 0, 0)
	w.put(12, 11, 0, 0)
	w.flush()
	s := once(t, NewTree(w.root, 10))
	if got, want := s.Tree.RSS.Or(0), uint64((10+11+12)*os.Getpagesize()); got != want {
		t.Errorf("RSS %d, want %d", got, want)
	}
}

func TestTreeThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), procs: map[int]*process{}}
	w.put(1, 0, 0, 0)
	w.flush()
	var s rt.Snapshot
	err := NewTree(w.root, 100).Read(&s)
	if !errors.Is(err, fs.ErrNotExist) || s.Tree != (rt.TreeReading{}) {
		t.Errorf("%+v, %v", s.Tree, err)
	}
}

// A real child of this process, which works until it gets a signal.
func TestTreeOfThisProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo ready; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	tree := NewTree(NewFS("/proc", "/sys"), os.Getpid())
	var s rt.Snapshot
	read := func() {
		s.Tree = rt.TreeReading{}
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if s.Tree.Children.Or(0) == 0 || s.Tree.RSS.Or(0) == 0 {
		t.Errorf("with a child: %+v", s.Tree)
	}
	if n := testing.AllocsPerRun(20, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
	before := s.Tree
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the shell's read ends with 1 at the end of its input
	read()
	if s.Tree.CPUUserTicks.Or(0) < before.CPUUserTicks.Or(0) || s.Tree.CPUSystemTicks.Or(0) < before.CPUSystemTicks.Or(0) {
		t.Errorf("the CPU time fell from %+v to %+v", before, s.Tree)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}

func FuzzPIDs(f *testing.F) {
	f.Add([]byte("7 8 9\n"))
	f.Add([]byte("0 99999999999999999999 x 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pid := range parsePIDs(b, nil) {
			if pid <= 0 {
				t.Errorf("%d is no pid", pid)
			}
		}
	})
}

// A member that cannot be read for a moment is one still.
func TestTreeUnread(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), procs: map[int]*process{}}
	w.put(1, 0, 999, 999)
	w.put(100, 1, 10, 0)
	w.put(200, 100, 5, 0)
	tree := NewTree(w.root, 100)
	for round, unreadable := range []int{0, 100, 0, 200, 0} {
		w.flush()
		if err := tree.Close(); err != nil { // flush creates the directory again
			t.Fatal(err)
		}
		if unreadable > 0 {
			stat := fmt.Sprintf("%s/%d/stat", w.root.Proc, unreadable)
			if err := errors.Join(os.Remove(stat), os.Mkdir(stat, 0o755)); err != nil { // reading it fails, as it does without a descriptor
				t.Fatal(err)
			}
		}
		var s rt.Snapshot
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
		if s.Tree.CPUUserTicks.Or(0) != 15 || s.Tree.Children.Or(0) != 1 {
			t.Errorf("reading %d: %v user ticks, %v children", round, s.Tree.CPUUserTicks, s.Tree.Children)
		}
	}
}
