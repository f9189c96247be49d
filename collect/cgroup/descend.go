package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// procOrder is where the job's processes are counted in v1, the best first: Slurm
// keeps every process in the freezer.
var procOrder = []string{cgroupfs.Unified, "freezer", "pids", "cpuacct", "memory"}

func (t *tree) procRank() int {
	best := len(procOrder)
	for i, c := range procOrder {
		if i < best && t.has(c) {
			best = i
		}
	}
	return best
}

// addTree takes in the job's directory in the hierarchy of a controller, with all
// below it. It is false where the directory vanished meanwhile.
func (j *Job) addTree(controller, dir string) bool {
	i := slices.IndexFunc(j.trees, func(t *tree) bool { return t.dir == dir })
	if i < 0 {
		i = len(j.trees)
		j.trees = append(j.trees, &tree{dir: dir})
	}
	t := j.trees[i]
	j.descend(t, dir)
	j.follow(filepath.Dir(dir)) // is what was just read still in the directory that is watched?
	if len(t.nodes) == 0 {
		j.trees = slices.Delete(j.trees, i, i+1)
		j.reader.drop(controller)
		return false
	}
	t.controllers = append(t.controllers, controller)
	slices.SortFunc(t.controllers, func(a, b string) int { return rank(a) - rank(b) })
	j.opened = 4
	j.failed(j.reader.open(controller, dir))
	for _, n := range t.nodes { // some of their files are this controller's
		j.failed(t.open(n))
		j.tellOOM(n)
		if n.own != nil {
			j.failed(n.own.files.open(controller, n.path))
		}
	}
	j.order = slices.SortedStableFunc(slices.Values(j.trees), func(a, b *tree) int { return a.procRank() - b.procRank() })
	if controller == cgroupfs.Unified {
		name := filepath.Join(dir, "cgroup.events")
		_, err := j.notify.watch(name, fileMask)
		j.unwatched(err)
		j.failed(j.events2.tryOpen(name))
		_, err = j.notify.watch(memoryEvents(dir), fileMask)
		j.unwatched(err)
		j.checkPopulated()
	}
	return true
}

// descend takes in dir and what is below it. The watch comes first: what is made
// after it gives an event, what was made before it is listed.
func (j *Job) descend(t *tree, dir string) {
	if !j.follow(dir) {
		return
	}
	wd := j.notify.byPath[dir] // 0 where there are no more watches to be had
	if i := t.find(dir); i < 0 {
		j.enter(t, &node{path: dir, wd: wd})
	} else if n := t.nodes[i]; wd != 0 && n.wd != wd {
		if n.wd != 0 || !n.dir.at(dir) { // what was known of that path is gone
			j.notify.moved = true
			return
		}
		n.wd = wd
	}
	if t.depth(dir) >= maxDepth {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		j.failed(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			j.descend(t, filepath.Join(dir, e.Name()))
		}
	}
}

// enter begins to read a directory.
func (j *Job) enter(t *tree, n *node) {
	if n.wd == 0 {
		n.dir.hold(n.path)
	}
	j.failed(t.open(n))
	j.tellOOM(n)
	t.nodes = append(t.nodes, n)
	j.began = true
	j.join(t, n)
	watch, err := j.reader.enter(t.dir, n.path, &j.buf)
	j.failed(err)
	if watch != "" {
		_, err := j.notify.watch(watch, fileMask)
		j.unwatched(err)
	}
}
