package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

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
}

// groupFiles are the counters of one directory in each hierarchy.
type groupFiles interface {
	open(controller, dir string) error
	read(r *rt.JobReading, s *scratch)
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
	if !ok {
		return
	}
	g := j.group(step, task)
	if g == nil {
		return
	}
	g.dirs++
	n.own = g
	if task.Valid() {
		n.task = g
	} else {
		n.step = g
	}
	for _, c := range t.controllers {
		j.failed(g.files.open(c, n.path))
	}
	if t.has(Unified) && task.Valid() {
		_, err := j.notify.watch(filepath.Join(n.path, "cgroup.events"), fileMask)
		j.unwatched(err)
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
	if len(j.groups) >= maxGroups {
		if !j.crowded {
			j.crowded = true
			j.note(rt.Event{Kind: "sensor", Name: "steps", Status: "failed",
				Detail: fmt.Sprintf("more than %d steps and tasks at once: some of them are not read one by one", maxGroups)})
		}
		return nil
	}
	g := &group{r: rt.StepReading{Step: step, Task: task}}
	if j.search.open[0].version == 2 {
		g.files = &v2Reader{skip: j.skip}
	} else {
		g.files = &v1Reader{skip: j.skip}
	}
	j.groups = append(j.groups, g)
	return g
}

// read takes the figures of g. Of what it tells no more the counters and peaks
// stay; where it tells nothing, everything.
func (g *group) read(tmp *rt.JobReading, s *scratch) {
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
	for _, p := range [...][2]*rt.Opt[uint64]{
		{&r.CPUUsage, &tmp.CPUUsage}, {&r.CPUUser, &tmp.CPUUser}, {&r.CPUSystem, &tmp.CPUSystem},
		{&r.MemPeak, &tmp.MemPeak}, {&r.PageFaults, &tmp.PageFaults}, {&r.MajorFaults, &tmp.MajorFaults},
		{&r.EventsOOMKill, &tmp.EventsOOMKill}, {&r.IOReadBytes, &tmp.IOReadBytes}, {&r.IOWriteBytes, &tmp.IOWriteBytes},
	} {
		if p[1].Valid() {
			*p[0] = *p[1]
		}
	}
}

// readEnding reads the steps and tasks that the notices are about: soon they will
// tell nothing. A task is read once at its step's end, for there can be many.
func (j *Job) readEnding(notices []notice) {
	for _, n := range notices {
		path := filepath.Join(n.dir, n.name)
		switch {
		case n.modified():
			path = filepath.Dir(path)
		case !n.removed():
			continue
		}
		for _, t := range j.trees {
			step := t.step(path)
			if step == "" {
				continue
			}
			i := t.find(path)
			for _, g := range j.groups {
				switch own := i >= 0 && t.nodes[i].own == g; {
				case g.r.Step != step || n.modified() && !own || g.last:
				default:
					g.last = n.removed() && g.r.Task.Valid()
					g.read(&j.part, &j.buf)
				}
			}
		}
	}
}

// endGroups lists the steps and tasks that have no directory any more as ended.
func (j *Job) endGroups() {
	j.groups = slices.DeleteFunc(j.groups, func(g *group) bool {
		if g.dirs > 0 {
			return false
		}
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
		j.mu.Lock()
		if !g.r.Ended && !j.shed {
			g.read(&j.part, &j.buf)
			s.Steps = append(s.Steps, g.r)
		}
		j.mu.Unlock()
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

// Shed leaves the steps and tasks out from the next reading on, but for those that
// end, or takes them up again.
func (j *Job) Shed(on bool) {
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
