package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// maxGroups is the maximum number of steps and tasks in a reading. Each has up to nine open
// files. Further ones are not read, which is logged once.
const maxGroups = 256

// group is the cgroup of a step of the job, or of a task: a directory in each hierarchy.
type group struct {
	r     rt.StepReading // as last read
	files *counterFiles
	dirs  int // its directories that exist

	pids                rt.Opt[uint64] // processes in it and below, as last counted
	oomKill, endedKills rt.Opt[uint64] // v1: processes killed in it and below; those in removed directories
	loggedKills         uint64         // OOM kills that were logged
	isReported          bool           // in a reading, under this number
	isExtern            bool           // the step in which the resource manager has a process, or its task 0 with this process
	// isFinal is set when the group was read after its last process, or all tasks of the step,
	// had ended.
	isFinal bool

	// earlier is what the directories had counted before the job began, nil if they are new. They are
	// not reported until they are used.
	earlier *rt.JobReading
	isUsed  bool

	step *group // of a task: its step, if that has a group
	task taskState
	all  stepState
}

// taskState has the fields that only a task uses.
type taskState struct {
	seen       []int      // v1: the first of its processes, which match its directories, see matching
	matchedIn  []string   // v1: the hierarchies in which its directory is known
	in         *hierarchy // where its processes are listed, nil until it was looked for
	pidfd      int        // of the process that is waited for; -1 for none
	looks      int        // checks for an ended process that are left until the next reading
	hadProcess bool
	isGone     bool // it lost a directory, so that no process is left
	isLastRead bool // it was read at its step's end
}

// stepState has the fields that only a step uses.
type stepState struct {
	isMixed      bool // processes outside its tasks used CPU
	endedTasks   int  // its tasks that were removed
	endedUsage   cpuTime
	tasksIn      []string  // v1: the hierarchies that had directories of its tasks
	lastTaskMade time.Time // v1: when the last directory of a task was made
}

func (g *group) isTask() bool { return g.r.Task.Valid() }

// taskSet has the steps and tasks of a job.
type taskSet struct {
	hierarchies
	taskNumbers
	state   *state // the owner
	pidfds  pidfds
	stacked majors

	groups []*group // those that exist
	listed []*group // the groups of one reading
	ended  []rt.StepReading
	skip   bool // leave the steps and tasks out

	// IsEndMissed is set when a step has ended without its last reading. The owner resets it after
	// it has read the job, because the job's counters include the step.
	IsEndMissed bool

	limitLogged bool          // the log has the event that there are too many groups
	part        rt.JobReading // scratch of a group's reading
}

// newTaskSet returns the taskSet of a job without directories. Files are read into buf.
func newTaskSet(owner *state, stacked majors) *taskSet {
	return &taskSet{
		hierarchies: hierarchies{buf: &owner.buf}, state: owner, pidfds: pidfds{epoll: owner.epoll}, stacked: stacked, taskNumbers: taskNumbers{Settle: settleTime},
	}
}

// Close closes all files.
func (s *taskSet) Close() {
	for _, h := range s.all {
		h.remove(h.dir)
	}
	for _, g := range s.groups {
		g.isFinal = true // no further reading uses it
	}
	s.EndGroups()
	s.all, s.byProc = nil, nil
	s.pidfds.off = true
}

// AddController records that a hierarchy has a controller, after its directories were entered.
func (s *taskSet) AddController(root, controller string) {
	h := s.find(root)
	h.controllers = append(h.controllers, controller)
	slices.SortFunc(h.controllers, func(a, b string) int { return cgroupfs.Rank(a) - cgroupfs.Rank(b) })
	for _, n := range h.dirs { // some of their files are this controller's
		s.state.Failed(n.Open(n.path, h.has("memory")))
		s.state.Failed(h.openFreezer(n))
		if n.own != nil {
			s.state.Failed(n.own.files.Open(controller, n.path))
		}
	}
	s.byProc = slices.SortedStableFunc(slices.Values(s.all), func(a, b *hierarchy) int { return a.procRank() - b.procRank() })
}

// Enter adds a directory below root, or root itself, and returns its files.
func (s *taskSet) Enter(version int, root, path string, at cgroupfs.Dir) *directoryFiles {
	s.version = version
	h := s.find(root)
	n := &directory{path: path, at: at}
	s.state.Failed(n.Open(path, h.has("memory")))
	s.state.Failed(h.openFreezer(n))
	h.dirs = append(h.dirs, n)
	if parent := h.find(filepath.Dir(path)); parent != nil {
		n.step, n.task = parent.step, parent.task
	}
	switch {
	case path == root:
	case !at.IsGroup(version):
		n.markMixed()
	case !at.Task.Valid():
		s.assignNew(h, n)
	case version == 1:
		s.enterTaskV1(h, n)
	default:
		s.assignNew(h, n)
		if n.own != nil {
			s.state.WatchFile(filepath.Join(path, "cgroup.events"))
		}
	}
	return &n.directoryFiles
}

// markMixed records that the step has a directory that belongs to no task.
func (n *directory) markMixed() {
	if n.step != nil && n.task == nil {
		n.step.all.isMixed = true
	}
}

// assignNew assigns a directory to its step or task, and creates the group if necessary.
func (s *taskSet) assignNew(h *hierarchy, n *directory) {
	n.hadGroup = true
	if parent := h.find(filepath.Dir(n.path)); parent != nil {
		parent.hadGroup = true
	}
	g := first(s.groups, func(g *group) bool { return g.r.Step == n.at.Step && g.r.Task == n.at.Task })
	if g == nil {
		g = s.newGroup(n)
	}
	if g != nil {
		s.assign(h, n, g)
	}
}

// newGroup creates the group of a directory. It returns nil if there are too many.
func (s *taskSet) newGroup(n *directory) *group {
	if len(s.groups) >= maxGroups {
		n.markMixed()
		if !s.limitLogged {
			s.limitLogged = true
			s.state.Note(rt.Event{Kind: "sensor", Name: "steps", Status: "failed",
				Detail: fmt.Sprintf("more than %d steps and tasks at once: some of them are not read one by one", maxGroups)})
		}
		return nil
	}
	g := &group{r: rt.StepReading{Step: n.at.Step, Task: n.at.Task}, files: newStepFiles(s.version, s.stacked)}
	g.isExtern = n.at.Extern && n.at.Task.Or(0) == 0
	g.task = taskState{pidfd: -1, looks: maxLooks}
	s.groups = append(s.groups, g)
	return g
}

// assign makes n a directory of g.
func (s *taskSet) assign(h *hierarchy, n *directory, g *group) {
	g.dirs++
	n.own = g
	if g.isTask() {
		g.step = n.step
		g.task.matchedIn = with(g.task.matchedIn, h.dir)
		h.setTask(n, g)
		if n.step != nil {
			n.step.isFinal = false
		}
	} else {
		n.step = g
	}
	for _, c := range h.controllers {
		s.state.Failed(g.files.Open(c, n.path))
	}
}

// setTask records that the processes in n and below belong to a task.
func (h *hierarchy) setTask(n *directory, g *group) {
	for _, o := range h.dirs {
		if cgroupfs.IsBelow(o.path, n.path) {
			o.task = g
		}
	}
}

// Leave drops a directory below root, or root itself, and all directories below it. It
// reports whether the directory or one in it was the cgroup of a step or task. A very short
// step can be gone before its cgroup is entered.
func (s *taskSet) Leave(root, path string) (hadGroup bool) {
	h := s.find(root)
	left := h.find(path)
	hadGroup = left != nil && left.hadGroup
	for _, n := range h.dirs {
		// In the hierarchy of the CPU time, a directory without a group belonged to a task without a reading.
		isUnseenTask := n.at.Task.Valid() && n.own == nil && n.task == nil
		if isUnseenTask && cgroupfs.IsBelow(n.path, path) && h == s.lead() {
			n.markMixed()
		}
	}
	h.remove(path)
	if path == root {
		isIt := func(o *hierarchy) bool { return o == h }
		s.all, s.byProc = slices.DeleteFunc(s.all, isIt), slices.DeleteFunc(s.byProc, isIt)
	}
	s.EndGroups()
	return hadGroup
}

// read reads g. The counters and peaks of removed files keep their values. If nothing can
// be read, all values are kept. It returns false if the CPU time cannot be read.
func (s *taskSet) read(g *group) bool {
	s.part = rt.JobReading{}
	g.files.Read(&s.part, s.buf)
	return g.take(&s.part, s.state)
}

// keep sets a figure to its value now, if it was read.
func keep(was *rt.Opt[uint64], now rt.Opt[uint64]) {
	if now.Valid() {
		*was = now
	}
}

// take adds what was read now to the figures. It returns false if the CPU time was not read.
func (g *group) take(now *rt.JobReading, owner *state) (isRead bool) {
	r, last := &g.r, usageOf(&g.r)
	if !now.EventsOOMKill.Valid() {
		now.EventsOOMKill = g.oomKill
	}
	if g.earlier != nil {
		now.SubtractEarlier(g.earlier)
		g.isUsed = g.isUsed || g.pids.Or(0) > 0 || now.CPUUsage.Or(0) > 0
	}
	if g.isExtern && now.CPUUsage.Valid() {
		leaveOutCPU(now, owner.sleeperCPU(), last) // as in the job's figures
	}
	if now.CPUUsage.Valid() || now.MemCurrent.Valid() {
		r.MemCurrent, r.Anon, r.File, r.Shmem = now.MemCurrent, now.Anon, now.File, now.Shmem
		r.Pids = g.pids
	}
	for _, f := range [...]struct{ was, now *rt.Opt[uint64] }{
		{&r.CPUUsage, &now.CPUUsage}, {&r.CPUUser, &now.CPUUser}, {&r.CPUSystem, &now.CPUSystem},
		{&r.MemPeak, &now.MemPeak}, {&r.PageFaults, &now.PageFaults}, {&r.MajorFaults, &now.MajorFaults},
		{&r.EventsOOMKill, &now.EventsOOMKill}, {&r.IOReadBytes, &now.IOReadBytes}, {&r.IOWriteBytes, &now.IOWriteBytes},
	} {
		keep(f.was, *f.now)
	}
	g.cpu().Balance(last)
	return now.CPUUsage.Valid()
}

// EndGroups marks the steps and tasks without a directory as ended. A task that was not
// read at its end is kept until the end of its step.
func (s *taskSet) EndGroups() {
	for _, g := range s.groups {
		isEnded := g.dirs == 0 && !g.isTask()
		switch {
		case isEnded && !g.isUnused():
			s.addMissedUsage(g)
		case isEnded && !g.isFinal: // this attempt may have used it since the last reading
			s.state.Note(missedEarlier(g.r.Step))
			s.IsEndMissed = s.IsEndMissed || !g.isExtern
		}
	}
	before := len(s.groups)
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool {
		isWaiting := !g.isFinal && g.step != nil && g.step.dirs > 0
		if g.dirs > 0 || isWaiting {
			return false
		}
		if g.step != nil {
			all := &g.step.all
			all.endedTasks++
			all.endedUsage = all.endedUsage.Plus(usageOf(&g.r))
		}
		g.unwatch()
		g.files.Close()
		g.r.Ended = true
		if s.isReportable(g) && !g.isUnused() {
			s.setReported(g)
			s.ended = append(s.ended, g.r)
		}
		return true
	})
	if len(s.groups) < before {
		s.forgetNumbers(s.groups)
	}
}

// List returns the steps and tasks to be read, until the next call.
func (s *taskSet) List() []*group {
	s.listed = append(s.listed[:0], s.groups...)
	return s.listed
}

// ReadGroup appends the reading of a step or task of List to snap.
func (s *taskSet) ReadGroup(g *group, snap *rt.Snapshot) {
	if g.r.Ended || s.skip || !s.isSettled(g, s.Len()) {
		return
	}
	g.task.looks = maxLooks
	if !s.pidfds.off {
		s.watchExit(g)
	}
	s.read(g)
	if g.isUnused() {
		return
	}
	s.setReported(g)
	snap.Steps = append(snap.Steps, g.r)
}

// AppendEnded appends the steps and tasks that have ended and are not stored yet to snap.
// The steps of snap from index first on are the readings of List.
func (s *taskSet) AppendEnded(snap *rt.Snapshot, first int) {
	clear(s.listed)
	for _, e := range s.ended {
		i := slices.IndexFunc(snap.Steps[first:], func(r rt.StepReading) bool {
			return r.Step == e.Step && r.Task == e.Task && !r.Ended
		})
		if i >= 0 { // it ended a moment ago
			snap.Steps[first+i] = e
		} else {
			snap.Steps = append(snap.Steps, e)
		}
	}
}

// Written reports that a snapshot is stored. The ended steps and tasks in it are then not
// reported again.
func (s *taskSet) Written(snap *rt.Snapshot) {
	for _, r := range snap.Steps {
		if i := slices.Index(s.ended, r); r.Ended && i >= 0 {
			s.ended = slices.Delete(s.ended, i, i+1)
		}
	}
}

// SkipSteps sets whether the following readings omit steps and tasks. Those that end are
// read in any case.
func (s *taskSet) SkipSteps(on bool) { s.skip = on }

// NewKills reads the reported steps and tasks. It returns the OOM kills in them since the
// last call, such as "2 in step 0 task 1".
func (s *taskSet) NewKills() (where []string) {
	for _, g := range s.groups {
		if !s.isReportable(g) {
			continue
		}
		s.read(g)
		now, before := g.r.EventsOOMKill.Or(0), g.loggedKills
		if now <= before {
			continue
		}
		g.loggedKills = now
		name := "step " + g.r.Step
		if task, ok := g.r.Task.Get(); ok {
			name = fmt.Sprintf("%s task %d", name, task)
		}
		where = append(where, fmt.Sprintf("%d in %s", now-before, name))
	}
	return where
}
