package cgroup

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// maxDepth is how far below the job's directory its tree is followed:
// step_0/user/task_0 in Slurm's v2 layout. A job may make more groups below a task.
const maxDepth = 4

// node is one directory of the job's tree in one hierarchy: the job's own, a
// step's, a task's.
type node struct {
	path  string
	wd    int32  // of its watch, 0 where it could not be watched
	dir   file   // where it could not: the directory, so that another one of its path is told from it
	procs file   // cgroup.procs
	again []byte // its path, a zero byte behind it

	// v1 counts these two for each directory alone, v2 does not need them.
	failcnt    file           // memory.failcnt
	oomControl file           // memory.oom_control
	oomTold    bool           // an OOM is told, see outOfMemory
	fail, oom  rt.Opt[uint64] // as last read

	own        *group // whose cgroup it is, nil for most
	number     uint64 // of a task's directory
	pids       []int  // of a v1 task's: the first of the processes that were seen in it last
	step, task *group // that its processes belong to, where there are any
}

// groups are the step and the task of a node.
func (n *node) groups() [2]*group { return [...]*group{n.step, n.task} }

// tree is the job's directory in one hierarchy and all known below it, the job's
// own first.
type tree struct {
	dir         string
	controllers []string // v1: those whose directory this is; v2: cgroupfs.Unified
	nodes       []*node

	fail, oom rt.Opt[uint64] // what the removed directories had counted at their last reading
}

func (t *tree) has(controller string) bool { return slices.Contains(t.controllers, controller) }

// below says whether path is dir or lies below it.
func below(path, dir string) bool {
	return strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}

// find returns the index of the node of a directory, or -1.
func (t *tree) find(path string) int {
	return slices.IndexFunc(t.nodes, func(n *node) bool { return n.path == path })
}

// step is the name of the step that path below the job's directory belongs to, or "".
func (t *tree) step(path string) string {
	if path == t.dir || !below(path, t.dir) {
		return ""
	}
	first, _, _ := strings.Cut(path[len(t.dir)+1:], "/")
	name, _ := strings.CutPrefix(first, "step_")
	if name == first {
		return ""
	}
	return name
}

// own is the step or task whose directory path is, nil for most.
func (t *tree) own(path string) *group {
	if i := t.find(path); i >= 0 {
		return t.nodes[i].own
	}
	return nil
}

// depth is how far path lies below the job's directory.
func (t *tree) depth(path string) int { return strings.Count(path[len(t.dir):], "/") }

// open opens what is not open yet of a node's files.
func (t *tree) open(n *node) error {
	name := filepath.Join(n.path, "cgroup.procs")
	n.again = append([]byte(name), 0)
	err := n.procs.tryOpen(name)
	if t.has("memory") {
		err = errors.Join(err,
			n.failcnt.tryOpen(filepath.Join(n.path, "memory.failcnt")),
			n.oomControl.tryOpen(filepath.Join(n.path, "memory.oom_control")))
	}
	return err
}

// remove forgets path and all below it.
func (t *tree) remove(path string) {
	t.nodes = slices.DeleteFunc(t.nodes, func(n *node) bool {
		if !below(n.path, path) {
			return false
		}
		addTo(&t.fail, n.fail)
		addTo(&t.oom, n.oom)
		for _, g := range n.groups() {
			if g != nil {
				addTo(&g.ended, n.oom)
			}
		}
		if n.own != nil {
			n.own.dirs--
		}
		n.dir.close()
		n.procs.close()
		n.failcnt.close()
		n.oomControl.close()
		return true
	})
}

// readEvents sums memory.failcnt and the oom_kill of memory.oom_control, which v1
// counts where the limit was hit or the victim was, and nowhere above. A kill
// between the last reading of a directory and its removal is not seen.
func (t *tree) readEvents(r *rt.JobReading, s *scratch) {
	r.EventsMax, r.EventsOOMKill = t.fail, t.oom
	for _, n := range t.nodes {
		if n.own != nil {
			n.own.oom = n.own.ended
		}
	}
	for _, n := range t.nodes {
		if v, ok := s.number(&n.failcnt); ok {
			n.fail.Set(v)
		}
		if b, ok := s.read(&n.oomControl); ok {
			if v, ok := parseKey(b, "oom_kill"); ok {
				n.oom.Set(v)
			}
		}
		addTo(&r.EventsMax, n.fail)
		addTo(&r.EventsOOMKill, n.oom)
		for _, g := range n.groups() {
			if g != nil {
				addTo(&g.oom, n.oom)
			}
		}
	}
}

// addTo adds what was read to a sum, which is absent while nothing was.
func addTo(sum *rt.Opt[uint64], v rt.Opt[uint64]) {
	if n, ok := v.Get(); ok {
		sum.Set(sum.Or(0) + n)
	}
}

// holdsJob says whether the processes in the i-th directory are the job's. Slurm's
// own daemon sits in step_X/slurm (v2), and in the job's directory of the freezer
// (v1); the job's processes are in the steps. A directory with nothing below it
// holds its processes itself.
func (t *tree) holdsJob(i int) bool {
	if i == 0 {
		return len(t.nodes) == 1
	}
	return !isDaemons(t.nodes[i].path)
}

// isDaemons says whether dir is where slurmstepd sits: job_1/step_0/slurm.
func isDaemons(dir string) bool {
	parent, name := filepath.Split(dir)
	return name == "slurm" && strings.HasPrefix(filepath.Base(parent), "step_")
}

// partList is the length from which on a piece of a list may have a successor: the
// kernel gives a page at a time, less the entry that does not fit.
const partList = 2048

// list reads the processes of one directory, from the list's beginning to its end,
// and is false where none could be read.
//
// In v1 a descriptor that is read again within a second shows the list of the last
// time, and each reading makes that second start again: the file is opened anew.
func (t *tree) list(n *node, s *scratch, list *pidList, dst *[]int) (read bool) {
	if !t.has(cgroupfs.Unified) {
		n.procs.reopen(n.again)
	}
	for off := int64(0); ; {
		k, ok := n.procs.pread(*s, off)
		read = read || ok
		list.add((*s)[:k], dst)
		off += int64(k)
		if k == 0 || k < partList && len(*s) > partList {
			break
		}
	}
	list.end(dst)
	return read
}

// readDaemons appends the processes that are not the job's: its slurmstepds.
func (t *tree) readDaemons(s *scratch, dst *[]int) {
	s.ready()
	var list pidList
	for i, n := range t.nodes {
		if !t.holdsJob(i) {
			t.list(n, s, &list, dst)
		}
	}
}

// readProcs reads every cgroup.procs of the tree and returns how many processes
// there are, and false where none could be read. With dst it appends their pids.
func (t *tree) readProcs(s *scratch, dst *[]int) (uint64, bool) {
	s.ready()
	var list pidList
	read := false
	for _, n := range t.nodes {
		if n.own != nil && dst == nil {
			n.own.pids.Set(0)
		}
	}
	for i, n := range t.nodes {
		if !t.holdsJob(i) {
			continue
		}
		before := list.count
		read = t.list(n, s, &list, dst) || read
		for _, g := range n.groups() {
			if g != nil && dst == nil {
				addTo(&g.pids, rt.Some(uint64(list.count-before)))
			}
		}
	}
	return uint64(list.count), read
}
