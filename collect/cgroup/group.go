package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// maxGroups is how many steps and tasks are read at once. Each holds up to nine
// descriptors; those beyond are left out, which is told once.
const maxGroups = 256

// group is the cgroup of one step of the job, or of one task of it: a directory in
// each hierarchy.
type group struct {
	r     rt.StepReading // as last read
	files groupFiles
	dirs  int // directories of it that are there

	pids       rt.Opt[uint64] // processes in it and below, as last counted
	oom, ended rt.Opt[uint64] // v1: processes killed in it and below; what directories that are gone had
	last       bool           // a task that was read at its step's end
	kills      uint64         // of processes for their memory, that the ledger was told of
	made       time.Time      // of a v1 task: when its first directory was
	told       bool           // in a reading, under this number
	into       *group         // of a v1 task: the one that it is a part of now, see pair
	merged     bool           // of a v1 task: another hierarchy has its process, too

	step  *group  // of a task: its step, where that has a group
	in    *tree   // where its processes are listed, nil until it was looked for
	exit  int     // of a task: the pidfd of a process of it, -1 is none
	looks int     // how often it is looked at for processes that end before the next reading
	met   bool    // a process was in it
	gone  bool    // a task: it lost a directory, so that no process is left
	mixed bool    // a step: its tasks are not all that was in it
	tasks int     // a step: how many tasks of it are gone and told of
	used  cpuTime // a step: by those
	// final says that it was read after its last process, or all tasks of a step, had
	// ended: it is never told more.
	final bool
}

// unwatch no longer waits for the end of a process.
func (g *group) unwatch() {
	if g.exit >= 0 {
		_ = unix.Close(g.exit)
	}
	g.exit = -1
}

// groupFiles are the counters of one directory in each hierarchy.
type groupFiles interface {
	open(controller, dir string) error
	read(r *rt.JobReading, s *scratch)
	drop(controller string)
	close()
}

// groupOf says of which step or task a directory below the job's is the cgroup. In
// v2 a step's processes are in step_<x>/user, beside slurmstepd.
func groupOf(version int, rel string) (step string, task rt.Opt[uint64], ok bool) {
	first, rest, more := strings.Cut(rel, "/")
	step, ok = strings.CutPrefix(first, "step_")
	if !ok || step == "" {
		return "", task, false
	}
	if version == 2 {
		user, below, deeper := strings.Cut(rest, "/")
		if user != "user" {
			return "", task, false
		}
		rest, more = below, deeper
	}
	if !more {
		return step, task, true
	}
	number, ok := strings.CutPrefix(rest, "task_")
	n, err := strconv.ParseUint(number, 10, 31) // task_special and the like are no tasks of the user's
	if !ok || err != nil {
		return "", task, false
	}
	return step, rt.Some(n), true
}

// join makes n, a directory of t that was just taken in, part of the step and task
// that it belongs to.
func (j *Job) join(t *tree, n *node) {
	if i := t.find(filepath.Dir(n.path)); i >= 0 {
		n.step, n.task = t.nodes[i].step, t.nodes[i].task
	}
	if n.path == t.dir {
		return
	}
	step, task, ok := groupOf(j.search.open[0].version, n.path[len(t.dir)+1:])
	var g *group
	switch {
	case ok && task.Valid():
		n.number = task.Or(0)
		g = j.task(step, task)
	case ok:
		g = j.group(step, task)
	}
	if g == nil {
		if n.step != nil && n.task == nil {
			n.step.mixed = true
		}
		return
	}
	g.dirs++
	n.own = g
	if task.Valid() {
		g.step, n.task = n.step, g
		if n.step != nil {
			n.step.final = false
		}
	} else {
		n.step = g
	}
	for _, c := range t.controllers {
		j.failed(g.files.open(c, n.path))
	}
	if !task.Valid() {
		return
	}
	if j.search.open[0].version == 2 {
		_, err := j.notify.watch(filepath.Join(n.path, "cgroup.events"), fileMask)
		j.unwatched(err)
		return
	}
	// slurmstepd writes to it, the kernel itself tells nothing
	_, err := j.notify.watch(filepath.Join(n.path, "cgroup.procs"), fileMask)
	j.unwatched(err)
	if j.inside(t, n); len(j.newPids) > 0 { // somebody was put there before
		j.came(n.path)
	}
}

// group returns the step's or task's, which it makes where there is none; nil
// where there are too many.
func (j *Job) group(step string, task rt.Opt[uint64]) *group {
	for _, g := range j.groups {
		if g.r.Step == step && g.r.Task == task {
			return g
		}
	}
	return j.newGroup(step, task)
}

// newGroup makes one; nil where there are too many.
func (j *Job) newGroup(step string, task rt.Opt[uint64]) *group {
	most := maxGroups
	if j.search.open[0].version == 1 {
		most *= 3 // until they are paired: a task's and, in memory, one left behind; see decide
	}
	if len(j.groups) >= most {
		j.tellCrowd()
		return nil
	}
	g := &group{r: rt.StepReading{Step: step, Task: task}, exit: -1, looks: maxLooks}
	if j.search.open[0].version == 2 {
		g.files = &v2Reader{skip: j.skip}
	} else {
		g.files = &v1Reader{skip: j.skip, part: true}
	}
	j.groups = append(j.groups, g)
	return g
}

// tellCrowd tells the ledger once that there are too many steps and tasks.
func (j *Job) tellCrowd() {
	if !j.crowded {
		j.crowded = true
		j.note(rt.Event{Kind: "sensor", Name: "steps", Status: "failed",
			Detail: fmt.Sprintf("more than %d steps and tasks at once: some of them are not read one by one", maxGroups)})
	}
}

// read takes the figures of g. Of what it tells no more the counters and peaks
// stay; where it tells nothing, everything. It is false where it does not tell the
// CPU time.
func (g *group) read(tmp *rt.JobReading, s *scratch) bool {
	*tmp = rt.JobReading{}
	g.files.read(tmp, s)
	r := &g.r
	if tmp.CPUUsage.Valid() || tmp.MemCurrent.Valid() {
		r.MemCurrent, r.Anon, r.File, r.Shmem = tmp.MemCurrent, tmp.Anon, tmp.File, tmp.Shmem
		r.Pids = g.pids
	}
	if !tmp.EventsOOMKill.Valid() {
		tmp.EventsOOMKill = g.oom
	}
	mine := lasting(r)
	for i, now := range [...]*rt.Opt[uint64]{
		&tmp.CPUUsage, &tmp.CPUUser, &tmp.CPUSystem, &tmp.MemPeak, &tmp.PageFaults, &tmp.MajorFaults,
		&tmp.EventsOOMKill, &tmp.IOReadBytes, &tmp.IOWriteBytes,
	} {
		if now.Valid() {
			*mine[i] = *now
		}
	}
	return tmp.CPUUsage.Valid()
}

// lasting are the figures that stay when they can no longer be read.
func lasting(r *rt.StepReading) [9]*rt.Opt[uint64] {
	return [...]*rt.Opt[uint64]{
		&r.CPUUsage, &r.CPUUser, &r.CPUSystem, &r.MemPeak, &r.PageFaults, &r.MajorFaults,
		&r.EventsOOMKill, &r.IOReadBytes, &r.IOWriteBytes,
	}
}

// readEnding reads the steps and tasks that the notices are about: soon they will
// tell nothing. A task is read once at its step's end, for there can be many, and
// before its step, which tells of it a little longer.
func (j *Job) readEnding(notices []notice) {
	for _, n := range notices {
		path := filepath.Join(n.dir, n.name)
		switch {
		case isProcs(n):
			continue
		case n.modified():
			path = filepath.Dir(path)
		case !n.removed():
			continue
		}
		for _, t := range j.trees {
			if step := t.step(path); step != "" {
				j.readEnds(step, t, path, n.removed())
			}
		}
	}
}

// readEnds reads the tasks of a step and the step itself, one of which had its
// directory at path and ends.
func (j *Job) readEnds(step string, t *tree, path string, removed bool) {
	if removed {
		j.decide(step)
	}
	own := t.own(path)
	if own != nil {
		own.gone = own.gone || removed
	}
	for _, g := range slices.Clone(j.groups) { // of which one can be found to be a part of another
		if g.r.Ended || g.r.Step != step || !g.r.Task.Valid() || removed && (g.last || g.final) || !removed && g != own {
			continue
		}
		g.last = removed
		g.unwatch() // whoever it was may have gone elsewhere
		g.looks = max(g.looks, 1)
		if j.meet(g); !removed || !g.final {
			g.read(&j.part, &j.buf)
		}
	}
	for _, g := range j.groups {
		if g.r.Step == step && !g.r.Task.Valid() && (removed || g == own) {
			j.finishStep(g)
			g.read(&j.part, &j.buf)
		}
	}
}

// endGroups lists the steps and tasks that have no directory any more as ended. A
// task whose last reading was missed waits for its step's end.
func (j *Job) endGroups() {
	for _, g := range j.groups {
		if g.dirs == 0 && !g.r.Task.Valid() {
			j.share(g)
		}
	}
	j.groups = slices.DeleteFunc(j.groups, func(g *group) bool {
		if g.dirs > 0 || !g.final && g.step != nil && g.step.dirs > 0 {
			return false
		}
		if g.step != nil {
			g.step.tasks++
			g.step.used = g.step.used.plus(cpuOf(&g.r))
		}
		g.unwatch()
		g.files.close()
		g.r.Ended = true
		j.endedSteps = append(j.endedSteps, g.r)
		return true
	})
}

// readSteps appends the readings of all steps and tasks to s, and those that ended
// and were not written yet. Between one and the next it lets the watcher have its
// turn, who has to be on time.
func (j *Job) readSteps(s *rt.Snapshot) {
	j.mu.Lock()
	j.listed = append(j.listed[:0], j.groups...)
	j.mu.Unlock()
	first := len(s.Steps)
	for _, g := range j.listed {
		j.readStep(g, s)
	}
	clear(j.listed)
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.endedSteps {
		i := slices.IndexFunc(s.Steps[first:], func(r rt.StepReading) bool {
			return r.Step == e.Step && r.Task == e.Task && !r.Ended
		})
		if i >= 0 { // it ended a moment ago
			s.Steps[first+i] = e
		} else {
			s.Steps = append(s.Steps, e)
		}
	}
}

func (j *Job) readStep(g *group, s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock() // also of a panic, see survive
	if g.r.Ended || j.shed || !j.settled(g) {
		return
	}
	if g.looks = maxLooks; !j.exits.off {
		j.meet(g)
	}
	g.read(&j.part, &j.buf)
	s.Steps = append(s.Steps, g.r)
}

// Written tells that s, which Read has filled, is kept: the steps and tasks that
// ended are not told of again.
func (j *Job) Written(s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v, ok := j.reader.(*v2Reader); ok {
		v.extra.written = v.extra.read
	}
	for _, r := range s.Steps {
		if r.Ended {
			i := slices.IndexFunc(j.endedSteps, func(e rt.StepReading) bool { return e == r })
			if i >= 0 {
				j.endedSteps = slices.Delete(j.endedSteps, i, i+1)
			}
		}
	}
}

// SkipSteps leaves the steps and tasks out from the next reading on, but for those that
// end, or takes them up again.
func (j *Job) SkipSteps(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shed = on
}

// note keeps an event for the ledger.
func (j *Job) note(e rt.Event) {
	e.Time = time.Now()
	j.notes = append(j.notes, e)
}

// Notes returns what happened since it was asked last that the run's ledger should
// have, each with its time.
func (j *Job) Notes() []rt.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	notes := j.notes
	j.notes = nil
	return notes
}
