package proc

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

var errNoChildrenFiles = errors.New("the kernel has no /proc/<pid>/task/<tid>/children")

// discover finds the processes that have become members. It looks in the children files
// of the members' threads if the kernel has them (CONFIG_PROC_CHILDREN), else it reads every
// process.
func (t *Tree) discover() error {
	if self := t.reaper(); self != 0 && !t.scan {
		t.scan = errors.Is(t.childrenOf(self), errNoChildrenFiles)
	}
	for i := 0; i < len(t.procs) && !t.scan; i++ { // the loop also visits the members that it adds
		err := t.childrenOf(t.procs[i].pid)
		t.scan = errors.Is(err, errNoChildrenFiles)
	}
	if !t.scan {
		return nil
	}
	return t.scanAll()
}

// childrenOf adds the children of each thread of pid. A process that has just ended has
// none. The kernel's list may omit a child while its sibling ends: the next reading
// finds it.
func (t *Tree) childrenOf(pid int) error {
	task, err := t.peek.path(t.fs.Proc).num(pid).str("/task").open(unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer task.Close() // opened for reading: nothing can be lost
	if t.list == nil {
		t.list = make([]byte, 32<<10)
	}
	t.pids = t.pids[:0]
	t.tids, err = appendNumbers(task.Fd(), t.list, t.tids[:0])
	if err != nil {
		return nil
	}
	for _, tid := range t.tids {
		b, err := t.peek.path(t.fs.Proc).num(pid).str("/task").num(tid).str("/children").read()
		if errors.Is(err, fs.ErrNotExist) && tid == pid {
			if _, err := t.look(pid); err == nil {
				return errNoChildrenFiles // the process exists and the file does not
			}
		}
		if err == nil {
			t.pids = parsePIDs(b, t.pids)
		}
	}
	for _, child := range t.pids {
		if t.has(child) {
			continue
		}
		if m, err := t.look(child); err == nil && m.ppid == pid && t.isBelow(&m) {
			t.join(m)
		}
	}
	return nil
}

// parsePIDs appends the numbers of a children file to pids.
func parsePIDs(b []byte, pids []int) []int {
	for len(b) > 0 {
		var word []byte
		word, b = procfile.Field(b)
		if n, ok := procfile.Uint(word); ok && n > 0 && n < 1<<31 {
			pids = append(pids, int(n))
		}
	}
	return pids
}

// scanAll reads every process that is not a member and adds those with a member as their parent.
func (t *Tree) scanAll() error {
	pids, err := t.dir.list(t.pids[:0])
	t.pids = pids
	if err != nil {
		return fmt.Errorf("find the children of process %d: %w", t.root, err)
	}
	t.strays = t.strays[:0]
	for _, pid := range t.pids {
		if t.has(pid) {
			continue
		}
		if m, err := t.look(pid); err == nil {
			t.strays = append(t.strays, m)
		}
	}
	for more := true; more; { // a child may come before its parent
		more = false
		for i := range t.strays {
			m := &t.strays[i]
			if !m.alive || !t.isBelow(m) {
				continue
			}
			t.join(*m)
			m.alive, more = false, true
		}
	}
	return nil
}
