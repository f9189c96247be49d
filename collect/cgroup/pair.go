package cgroup

import (
	"slices"
	"time"

	"github.com/resource-tracker/rt"
)

// Slurm with cgroup v1 numbers the tasks of a step through all of its nodes in one
// hierarchy (cpuacct) and on each node from 0 in another (memory, where it first
// puts each task into a directory by its number in the step, too, and leaves that
// behind): of eight tasks dealt out to two nodes, cpuacct's task_3 and memory's
// task_1 are the same one, and memory's task_3 is nobody's or another's. Which
// directories are one task's is known by the processes that are in them. Where none
// was seen, the n-th of cpuacct is memory's task_n. The lowest number is the one on
// the node.

// pairAfter is how long after its last directory was made a step's tasks are told
// of: by then slurmstepd has put their processes where they stay.
const pairAfter = 250 * time.Millisecond

// inside lists the processes that are in a directory in j.newPids.
func (j *Job) inside(t *tree, n *node) {
	var list pidList
	j.newPids = j.newPids[:0]
	t.list(n, j.buf.ready(), &list, &j.newPids)
}

// process takes note of the processes that are in a task's directory, and that
// those have left others.
func (j *Job) process(t *tree, n *node) {
	if len(j.trees) < 2 || n.own == nil || !n.own.r.Task.Valid() {
		return
	}
	if j.inside(t, n); len(j.newPids) == 0 {
		return // they have ended or gone elsewhere, where they are seen
	}
	n.pids = append(n.pids[:0], j.newPids[:min(len(j.newPids), 4)]...)
	for _, o := range t.nodes {
		k := len(o.pids)
		if o == n || k == 0 {
			continue
		}
		o.pids = slices.DeleteFunc(o.pids, func(pid int) bool { return slices.Contains(n.pids, pid) })
		if len(o.pids) < k && o.own != nil {
			o.own.met = o.own.met && (o.own.merged || len(o.pids) > 0)
			o.own.merged = false
		}
	}
}

// untold says whether tasks of a step are not told of yet.
func (j *Job) untold(step string) bool {
	return slices.ContainsFunc(j.groups, func(g *group) bool { return g.r.Step == step && g.r.Task.Valid() && !g.told })
}

// taskNodes are the directories of a step's tasks in t, by their numbers.
func (t *tree) taskNodes(step string) (nodes []*node) {
	for _, n := range t.nodes {
		if n.own != nil && n.own.r.Task.Valid() && n.own.r.Step == step {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *node) int { return int(a.number) - int(b.number) })
	return nodes
}

// pair makes each task of a step one, which begins as one in each hierarchy: those that
// a process was seen in. In the end those too of which none was seen, by their numbers,
// and what is left over in a hierarchy that is not the first is nobody's.
func (j *Job) pair(step string, end bool) {
	if len(j.trees) < 2 || !j.untold(step) {
		return
	}
	trees := slices.SortedStableFunc(slices.Values(j.trees), func(a, b *tree) int { return a.order() - b.order() })
	var lead []*node
	for _, t := range trees {
		nodes := t.taskNodes(step)
		for _, n := range nodes {
			if end || len(n.pids) == 0 {
				j.process(t, n)
			}
		}
		if lead == nil {
			lead = nodes
			continue
		}
		for _, n := range lead {
			if o := sharing(n, nodes); o != nil && o.own != n.own {
				j.seenIn(t, n, o, slices.Concat(lead, nodes))
			}
		}
		if end && len(nodes) > 0 {
			j.pairByNumber(lead, nodes)
			j.leave(lead, nodes)
		}
	}
	if end {
		j.number(lead)
	}
}

// order is the rank of a tree's most important controller.
func (t *tree) order() int {
	if len(t.controllers) == 0 {
		return len(v1Order)
	}
	return rank(t.controllers[0])
}

// owns says whether one of the directories is a group's.
func owns(nodes []*node, g *group) bool {
	return slices.ContainsFunc(nodes, func(n *node) bool { return n.own == g })
}

// sharing is the directory in which a process of n was seen, nil where none was.
func sharing(n *node, nodes []*node) *node {
	for _, o := range nodes {
		if slices.ContainsFunc(o.pids, func(pid int) bool { return slices.Contains(n.pids, pid) }) {
			return o
		}
	}
	return nil
}

// seenIn makes o, a directory of t, that of n's task, whose process was seen there. What
// they were taken for before is over.
func (j *Job) seenIn(t *tree, n, o *node, all []*node) {
	for _, left := range t.nodes {
		if left.own == n.own {
			j.split(t, left)
		}
	}
	if slices.ContainsFunc(all, func(x *node) bool { return x != o && x.own == o.own }) {
		j.split(t, o)
		j.regroup(t, o)
	}
	if o.own != nil {
		j.merge(n.own, o.own)
	}
}

// split takes a directory of t from the task that it was taken for, whose process is
// seen elsewhere.
func (j *Job) split(t *tree, n *node) {
	g := n.own
	for _, c := range t.controllers {
		g.files.drop(c)
	}
	r := &g.r
	if t.has("memory") {
		for _, v := range [...]*rt.Opt[uint64]{&r.MemCurrent, &r.Anon, &r.File, &r.Shmem, &r.MemPeak, &r.PageFaults, &r.MajorFaults} {
			v.Clear()
		}
	}
	g.dirs--
	g.in, g.merged = nil, false
	n.own, n.task = nil, nil
}

// regroup makes a task's directory that is nobody's a task by itself again.
func (j *Job) regroup(t *tree, n *node) {
	g := j.task(t.step(n.path), rt.Some(n.number))
	if g == nil {
		return
	}
	g.dirs, g.step = 1, n.step
	n.own, n.task = g, g
	for _, c := range t.controllers {
		j.failed(g.files.open(c, n.path))
	}
}

// pairByNumber takes the n-th of a step's tasks for the one that another hierarchy counts
// as task_n, where no process says otherwise.
func (j *Job) pairByNumber(lead, nodes []*node) {
	for i, n := range lead {
		if owns(nodes, n.own) {
			continue
		}
		k := slices.IndexFunc(nodes, func(o *node) bool { return o.number == uint64(i) })
		if k < 0 && len(nodes) == len(lead) {
			k = i
		}
		switch {
		case k >= 0 && !owns(lead, nodes[k].own) && (len(nodes[k].pids) == 0 || len(n.pids) == 0):
			j.merge(n.own, nodes[k].own)
		case !n.own.told:
			n.own.r.Task.Set(min(n.own.r.Task.Or(0), uint64(i)))
		}
	}
}

// number lets no two tasks of a step have one number.
func (j *Job) number(lead []*node) {
	for _, n := range lead {
		g := n.own
		for !g.told && slices.ContainsFunc(j.groups, func(o *group) bool { return o != g && o.r.Step == g.r.Step && o.r.Task == g.r.Task }) {
			g.r.Task.Set(g.r.Task.Or(0) + 1)
		}
	}
}

// merge makes one task of two that were not both told of.
func (j *Job) merge(g, o *group) {
	for _, t := range j.trees {
		for _, n := range t.nodes {
			if n.task == o {
				n.task = g
			}
			if n.own == o {
				n.own = g
				for _, c := range t.controllers {
					j.failed(g.files.open(c, n.path))
				}
			}
		}
	}
	if !g.told {
		g.r.Task.Set(min(g.r.Task.Or(0), o.r.Task.Or(0)))
	}
	if g.exit < 0 {
		g.exit, o.exit = o.exit, -1
	}
	addTo(&g.ended, o.ended)
	addTo(&g.oom, o.oom)
	addTo(&g.pids, o.pids) // one hierarchy alone is asked for them
	g.dirs += o.dirs
	g.kills, g.looks, g.in = g.kills+o.kills, max(g.looks, o.looks), nil
	g.met, g.gone, g.final = g.met || o.met, g.gone || o.gone, g.final || o.final
	mine, theirs := lasting(&g.r), lasting(&o.r)
	for i := range mine {
		if !mine[i].Valid() {
			*mine[i] = *theirs[i]
		}
	}
	o.into, g.merged = g, true
	j.forget(o)
	if g.final { // without what came just now
		g.read(&j.part, &j.buf)
	}
}

// leave forgets what is no task: directories beyond those of the first hierarchy.
func (j *Job) leave(lead, nodes []*node) {
	for _, n := range nodes {
		if o := n.own; o != nil && !o.told && !owns(lead, o) {
			j.leaveOut(o)
		}
	}
}

// leaveOut makes a task's directories nobody's.
func (j *Job) leaveOut(g *group) {
	for _, t := range j.trees {
		for _, n := range t.nodes {
			if n.own == g {
				n.own = nil
			}
			if n.task == g {
				n.task = nil
			}
		}
	}
	j.forget(g)
}

func (j *Job) forget(g *group) {
	g.unwatch()
	g.files.close()
	g.r.Ended = true
	j.groups = slices.DeleteFunc(j.groups, func(x *group) bool { return x == g })
}

// settled says whether g may be told of under its number.
func (j *Job) settled(g *group) bool {
	if !g.told && g.r.Task.Valid() {
		for _, o := range j.groups {
			if len(j.trees) > 1 && o.r.Step == g.r.Step && !o.told && o.r.Task.Valid() && time.Since(o.made) < j.pairAfter {
				return false
			}
		}
		j.decide(g.r.Step)
	}
	g.told = true
	return !g.r.Ended
}

// decide pairs a step's tasks for good, and leaves out those that are too many. It is
// done once: at the end of a step of many tasks there is no time for more.
func (j *Job) decide(step string) {
	if !j.untold(step) {
		return
	}
	j.pair(step, true)
	told := 0
	for _, g := range slices.Clone(j.groups) {
		if g.told = g.told || g.r.Step == step; g.told {
			told++
		}
		if told > maxGroups && g.r.Step == step && g.step != nil {
			g.step.mixed = true
			j.leaveOut(g)
			j.tellCrowd()
		}
	}
}

// task finds the group of a task's directory, which it makes where there is none. In
// v1 it is one of its own at first, see pair.
func (j *Job) task(step string, task rt.Opt[uint64]) *group {
	if j.search.open[0].version == 2 {
		return j.group(step, task)
	}
	g := j.newGroup(step, task)
	if g != nil {
		g.made = time.Now()
	}
	return g
}
