package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// directory is one directory of one hierarchy: the job's own, a step's, a task's.
type directory struct {
	path string
	at   cgroupfs.Dir
	directoryFiles

	freezer procfile.File // v1: freezer.state of a step

	own        *group // the step or task whose cgroup it is, nil for most
	step, task *group // the step and task of its processes
	hadGroup   bool   // it, or a directory in it, was the cgroup of a step or task
}

// groups yields the step and the task of a directory, if it is of one.
func (n *directory) groups(yield func(*group) bool) {
	if n.step != nil && !yield(n.step) {
		return
	}
	if n.task != nil {
		yield(n.task)
	}
}

// hierarchy is the job's directory in one hierarchy, and all below it.
type hierarchy struct {
	dir         string
	controllers []string     // v1: this hierarchy's, the important ones first; v2: cgroupfs.Unified
	dirs        []*directory // the job's own first

	fail, oomKill rt.Opt[uint64] // what removed directories had at their last reading
}

func (h *hierarchy) has(controller string) bool { return slices.Contains(h.controllers, controller) }

// version is the version of the cgroup interface.
func (h *hierarchy) version() int {
	if h.has(cgroupfs.Unified) {
		return 2
	}
	return 1
}

// rank is the rank of the most important controller.
func (h *hierarchy) rank() int {
	if len(h.controllers) == 0 {
		return len(cgroupfs.ControllersV1)
	}
	return cgroupfs.Rank(h.controllers[0])
}

// procOrder lists the v1 controllers in which the job's processes are counted, the best first: Slurm
// keeps every process in the freezer.
var procOrder = []string{cgroupfs.Unified, "freezer", "pids", "cpuacct", "memory"}

func (h *hierarchy) procRank() int {
	if i := slices.IndexFunc(procOrder, h.has); i >= 0 {
		return i
	}
	return len(procOrder)
}

// first returns the first of the list that has a property, nil if none has.
func first[T any](list []*T, has func(*T) bool) *T {
	if i := slices.IndexFunc(list, has); i >= 0 {
		return list[i]
	}
	return nil
}

// find returns the directory at path, nil if there is none.
func (h *hierarchy) find(path string) *directory {
	return first(h.dirs, func(n *directory) bool { return n.path == path })
}

// remove forgets path and all below it.
func (h *hierarchy) remove(path string) {
	h.dirs = slices.DeleteFunc(h.dirs, func(n *directory) bool {
		if !cgroupfs.IsBelow(n.path, path) {
			return false
		}
		addFigure(&h.fail, n.Fail)
		addFigure(&h.oomKill, n.OOMKill)
		for g := range n.groups {
			addFigure(&g.endedKills, n.OOMKill)
		}
		if n.own != nil {
			n.own.dirs--
			n.own.leaveUnused(h)
		}
		n.Close()
		n.freezer.Retire()
		return true
	})
}

// openFreezer opens freezer.state of the directory of a step. Slurm does not suspend its own step.
func (h *hierarchy) openFreezer(n *directory) error {
	isOfStep := h.has("freezer") && n.at.Part == cgroupfs.PartStep && !n.at.Extern
	if !isOfStep {
		return nil
	}
	return openFile(&n.freezer, filepath.Join(n.path, "freezer.state"))
}

// IsFrozen reports whether the resource manager has frozen a step, which it does with all steps of a suspended job
// (v1). isRead is not set if no step shows it.
func (s *hierarchies) IsFrozen() (isFrozen, isRead bool) {
	for _, h := range s.all {
		for _, n := range h.dirs {
			if !n.freezer.IsOpen() {
				continue
			}
			if state, ok := readFile(&n.freezer, s.buf); ok {
				return !bytes.HasPrefix(state, thawed), true
			}
		}
	}
	return false, false
}

var thawed = []byte("THAWED")

// readEvents adds up what v1 counts for each directory alone.
func (h *hierarchy) readEvents(r *rt.JobReading, buf *procfile.Buffer) {
	r.EventsMax, r.EventsOOMKill = h.fail, h.oomKill
	for _, n := range h.dirs {
		if n.own != nil {
			n.own.oomKill = n.own.endedKills
		}
	}
	for _, n := range h.dirs {
		n.ReadEvents(buf)
		addFigure(&r.EventsMax, n.Fail)
		addFigure(&r.EventsOOMKill, n.OOMKill)
		for g := range n.groups {
			addFigure(&g.oomKill, n.OOMKill)
		}
	}
}

// holdsJob reports whether the processes of the i-th directory are the job's. slurmstepd
// is in step_X/slurm (v2), and in the job's directory of the freezer (v1); the job's
// processes are in the steps. A directory with nothing below it has the job's processes.
func (h *hierarchy) holdsJob(i int) bool {
	if i == 0 {
		return len(h.dirs) == 1
	}
	return h.dirs[i].at.Part != cgroupfs.PartDaemon
}

// detach takes a directory from the task that left it.
func (h *hierarchy) detach(n *directory) {
	g := n.own
	for _, c := range h.controllers {
		g.files.Drop(c)
	}
	r := &g.r
	if h.has("memory") {
		for _, v := range [...]*rt.Opt[uint64]{&r.MemCurrent, &r.Anon, &r.File, &r.Shmem, &r.MemPeak, &r.PageFaults, &r.MajorFaults} {
			v.Clear()
		}
	}
	g.dirs--
	g.task.in = nil
	g.task.matchedIn = slices.DeleteFunc(g.task.matchedIn, func(dir string) bool { return dir == h.dir })
	n.own = nil
	h.setTask(n, nil)
}

// procs appends the pids of the job's processes to dst, unless dst is nil. It returns how many there are, and
// false if none could be listed. With isCounting it also counts the processes of each group.
func (h *hierarchy) procs(buf *procfile.Buffer, dst *[]int, isCounting bool) (total uint64, ok bool) {
	for _, n := range h.dirs {
		if n.own != nil && isCounting {
			n.own.pids.Set(0)
		}
	}
	for i, n := range h.dirs {
		if !h.holdsJob(i) {
			continue
		}
		count, isRead := n.ListProcs(h.version(), buf, dst)
		total, ok = total+uint64(count), ok || isRead
		for g := range n.groups {
			if isCounting {
				addFigure(&g.pids, rt.Some(uint64(count)))
			}
		}
	}
	return total, ok
}

// hierarchies are the job's directories in all hierarchies.
type hierarchies struct {
	buf    *procfile.Buffer
	all    []*hierarchy // in the order in which they were found
	byProc []*hierarchy // the best for listing processes first
	pids   []int        // scratch: the processes that list and members have listed
}

func (s *hierarchies) find(root string) *hierarchy {
	return first(s.all, func(h *hierarchy) bool { return h.dir == root })
}

// list lists the processes of one directory in s.pids.
func (s *hierarchies) list(h *hierarchy, n *directory) {
	s.pids = s.pids[:0]
	n.ListProcs(h.version(), s.buf, &s.pids)
}

// members lists the processes of a task, or those in a step's directory itself, in
// s.pids. It is false if they cannot be listed.
func (s *hierarchies) members(g *group) (ok bool) {
	if g.task.in == nil {
		for _, h := range s.all {
			isOwn := slices.ContainsFunc(h.dirs, func(n *directory) bool { return n.own == g })
			isBetter := g.task.in == nil || h.rank() < g.task.in.rank()
			if isOwn && len(h.controllers) > 0 && isBetter {
				g.task.in = h
			}
		}
	}
	s.pids = s.pids[:0]
	if g.task.in == nil {
		return false
	}
	h := g.task.in
	for _, n := range h.dirs {
		if n.own == g || n.task == g {
			_, isRead := n.ListProcs(h.version(), s.buf, &s.pids)
			ok = ok || isRead
		}
	}
	if !ok {
		g.task.in = nil
	}
	return ok
}

// hasProcess reports whether a step of v2 has a process. If its tasks have ended, only a process outside of
// them counts: Linux 7.2 counts one that has ended for a moment more.
func (s *hierarchies) hasProcess(step *group, haveTasksEnded bool) bool {
	for _, h := range s.all {
		for i, n := range h.dirs {
			isOfStep := n.step == step && h.version() == 2
			switch {
			case !isOfStep:
			case n.own == step && !haveTasksEnded:
				text, _ := os.ReadFile(filepath.Join(n.path, "cgroup.events")) // the directory may be gone
				if bytes.Contains(text, []byte("populated 1")) {
					return true
				}
			case n.task == nil && h.holdsJob(i):
				s.list(h, n)
				if len(s.pids) > 0 {
					return true
				}
			}
		}
	}
	return false
}

// AddHierarchy adds the job's directory in a hierarchy, before its directories are
// entered. It may be there already: controllers can share a hierarchy.
func (s *hierarchies) AddHierarchy(root string) {
	if s.find(root) == nil {
		s.all = append(s.all, &hierarchy{dir: root})
	}
}

// Len returns the number of hierarchies.
func (s *hierarchies) Len() int { return len(s.all) }

// Controllers returns the controllers of a hierarchy.
func (s *hierarchies) Controllers(root string) []string { return s.find(root).controllers }

// DirOf returns the job's directory of a controller, "" if there is none.
func (s *hierarchies) DirOf(controller string) string {
	h := first(s.all, func(h *hierarchy) bool { return h.has(controller) })
	if h == nil {
		return ""
	}
	return h.dir
}

// Lead returns the hierarchy in which removals are reported: all hierarchies of v1 lose the same
// directories.
func (s *hierarchies) Lead() string { return s.lead().dir }

func (s *hierarchies) lead() *hierarchy {
	return slices.MinFunc(s.all, func(a, b *hierarchy) int { return a.rank() - b.rank() })
}

// EachDirectory calls f for all directories of a hierarchy.
func (s *hierarchies) EachDirectory(root string, f func(path string, d *directoryFiles)) {
	for _, n := range s.find(root).dirs {
		f(n.path, &n.directoryFiles)
	}
}

// Read sets the number of processes and, of v1, the memory events of the job in r.
func (s *hierarchies) Read(r *rt.JobReading) {
	for _, h := range s.all {
		if h.has("memory") {
			h.readEvents(r, s.buf)
		}
	}
	for _, h := range s.byProc {
		if n, ok := h.procs(s.buf, nil, true); ok {
			r.Pids.Set(n)
			break
		}
	}
}

// OOMKillsV1 reads how many processes of the job v1 has killed for their memory.
func (s *hierarchies) OOMKillsV1() (kills uint64) {
	for _, h := range s.all {
		kills += h.oomKill.Or(0)
		for _, n := range h.dirs {
			v, _ := readKey(&n.OOMControl, s.buf, "oom_kill")
			kills += v
		}
	}
	return kills
}

// Procs appends the pids of the job's processes to dst, without slurmstepd's.
func (s *hierarchies) Procs(dst []int) []int {
	for _, h := range s.byProc {
		n := len(dst)
		if _, ok := h.procs(s.buf, &dst, false); ok && len(dst) > n {
			break
		}
	}
	return dst
}

// Daemons appends the pids of the job's slurmstepds to dst, including their children that have not
// been moved to the directory of a task yet.
func (s *hierarchies) Daemons(dst []int) []int {
	for _, h := range s.byProc {
		for i, n := range h.dirs {
			if !h.holdsJob(i) {
				n.ListProcs(h.version(), s.buf, &dst)
			}
		}
		if len(dst) > 0 {
			break
		}
	}
	return dst
}
