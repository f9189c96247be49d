package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Pages that a shell shares with its forked children count once in PSS, and in each process in RSS. A zombie
// has no memory.
func TestTreePSS(t *testing.T) {
	const shared, children = 40 << 20, 4
	run, pid := shell(t)
	run(fmt.Sprintf("x=$(head -c %d /dev/zero | tr '\\0' a); echo ${#x}", shared))
	for range children {
		run("(sleep 1000 >/dev/null; : $x) & echo $!") // the subshell waits for sleep, with the memory of its parent
	}
	run("sh -c ': & exec sleep 1000' >/dev/null & echo $!") // sleep does not wait for the child that it inherits
	tree := NewTree(NewFS("/proc", "/sys"), pid)
	tree.ReadPSS()
	tree.memory.pss.wait, tree.memory.pss.most = time.Minute, time.Minute // this machine may be busy
	defer tree.Close()
	var s rt.Snapshot
	for range 10 { // a process that executes another program meanwhile may not be readable
		s.Tree = rt.TreeReading{}
		s.Boot += int64(time.Hour)
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
		if s.Tree.PSS.Valid() {
			break
		}
	}
	rss, pss := s.Tree.RSS.Or(0), s.Tree.PSS.Or(0)
	if rss < children*shared {
		t.Fatalf("the resident sets are %d bytes: the children do not share %d", rss, shared)
	}
	// A child that is made after the processes were listed shares the pages until it executes sleep. On a busy
	// machine each of them may have one, so half of the pages are in no process of the list.
	const least = shared / 2
	if pss < least || pss > 2*shared {
		t.Errorf("PSS %d of a tree that shares %d bytes, RSS %d", pss, shared, rss)
	}
	s.Tree = rt.TreeReading{}
	s.Boot++ // less than the least pause of a scan
	if err := tree.Read(&s); err != nil {
		t.Fatal(err)
	}
	if s.Tree.PSS.Valid() || !s.Tree.RSS.Valid() {
		t.Errorf("between the readings of PSS: %+v", s.Tree)
	}
}

// If one process cannot be read, there is no sum, because it would be too low.
func TestTreePSSIsComplete(t *testing.T) {
	dir := t.TempDir()
	w := &world{t: t, root: NewFS(filepath.Join(dir, "proc"), dir), procs: map[int]*process{}}
	w.put(10, 1, 0, 0)
	w.put(11, 10, 0, 0)
	for _, tt := range []struct {
		name string
		pids []int // with a file
		want rt.Opt[uint64]
	}{
		{"all", []int{10, 11}, rt.Some[uint64](20 << 10)},
		{"one is denied", []int{10}, rt.None[uint64]()},
		{"an old kernel", nil, rt.None[uint64]()},
	} {
		w.flush()
		for _, pid := range tt.pids {
			write(t, w.root.Proc+"/"+strconv.Itoa(pid)+"/smaps_rollup", "00400000-7ffe0000 ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nPss: 10 kB\n")
		}
		tree := NewTree(w.root, 10)
		tree.ReadPSS()
		tree.memory.pss.wait = time.Minute
		s := once(t, tree)
		if s.Tree.PSS != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, s.Tree.PSS, tt.want)
		}
	}
}

// A process whose PSS would take too long to read is not read.
func TestTreePSSOfLargeProcesses(t *testing.T) {
	pages := func(gib float64) uint64 { return uint64(gib * (1 << 30) / float64(os.Getpagesize())) }
	for _, tt := range []struct {
		name    string
		whole   bool
		members []member
		want    bool
	}{
		{"small ones", false, []member{{rss: pages(4)}, {rss: pages(4)}}, true},
		{"a large one holds its lock for too long", false, []member{{rss: pages(6)}}, false},
		{"a newer kernel lets go of the lock", true, []member{{rss: pages(6)}}, true},
		{"all together", true, []member{{rss: pages(20)}, {rss: pages(20)}}, false},
		{"one memory of two processes", true, []member{{rss: pages(20)}, {rss: pages(20), isShared: true}}, true},
	} {
		m := treeMemory{whole: tt.whole}
		if got := m.list(tt.members); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for release, want := range map[string][2]int{
		"6.18.44-fc": {6, 18}, "5.10.0-8-amd64": {5, 10}, "4.18.0-553.el8": {4, 18}, "7.0": {7, 0}, "": {}, "x": {}, "6-rc": {6, 0},
	} {
		if got := parseVersion(release); got != want {
			t.Errorf("%q: %v, want %v", release, got, want)
		}
	}
}

// kcmp(2) distinguishes the memory of two processes.
func TestSharesMemory(t *testing.T) {
	_, pid := shell(t)
	if sharesMemory(pid, os.Getpid()) {
		t.Error("a child after execve shares the memory of this process")
	}
	if !sharesMemory(unix.Getpid(), os.Getpid()) {
		t.Skip("kcmp(2) is not permitted here")
	}
}
