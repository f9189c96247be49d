package cgroup

import (
	"path/filepath"
	"slices"
)

// reconcile compares all that is known with what is there, after events were lost.
func (j *Job) reconcile() {
	for _, t := range slices.Clone(j.trees) {
		j.follow(filepath.Dir(t.dir)) // before its own directory is looked at, whose end it tells
		if len(t.nodes) > 0 {
			j.take()
			if j.ends != nil {
				j.ends("", j.daemons())
			}
		}
		for _, n := range slices.Backward(slices.Clone(t.nodes)) { // children before parents
			if t.find(n.path) >= 0 && !j.still(n) {
				j.decide(t.step(n.path)) // or its tasks are told of once for each hierarchy
				j.removed(n.path)
			}
		}
		if slices.Contains(j.trees, t) {
			j.descend(t, t.dir)
			j.checkPopulated()
		}
	}
	j.look()
}
