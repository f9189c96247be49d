package cgroup

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/resource-tracker/rt/collect/cgroup/counters"
	"github.com/resource-tracker/rt/collect/cgroup/watch"
)

// callbacks are what a Job calls when steps begin and end.
type callbacks struct {
	layout Layout
	ends   func(step string, stepds []int) // Options.StepEnds
	begins func(stepds []int)              // Options.StepBegins
}

// call calls them for steps that begin and end. It runs without the job's lock: a thread
// that takes a reading at the lowest priority holds it, and if all cores are busy that can
// last longer than a short step.
func (c *callbacks) call(notices []watch.Notice) {
	var begun, ended []string
	for _, n := range notices {
		path := n.Path()
		d := c.layout.Locate(path)
		switch {
		case d.Step == "":
		case n.Created() && c.begins != nil && !slices.Contains(begun, d.StepDir):
			begun = append(begun, d.StepDir)
			c.begins(c.daemonsOf(d.StepDir))
		case n.Removed() && c.ends != nil && !slices.Contains(ended, d.StepDir):
			ended = append(ended, d.StepDir)
			step := d.Step
			if d.IsTaskDir() && c.hasTasks(filepath.Dir(path)) {
				step = "" // v2 removes each task's directory when that task ends
			}
			c.ends(step, c.daemonsOf(d.StepDir))
		}
	}
}

// hasTasks says whether dir has the directory of a task.
func (c *callbacks) hasTasks(dir string) bool {
	entries, _ := os.ReadDir(dir) // it was removed: so were they
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		d := c.layout.Locate(filepath.Join(dir, e.Name()))
		return d.IsTaskDir() && d.Task.Valid()
	})
}

// daemonsOf lists the processes where the daemon of a step can be, the job's own too.
func (c *callbacks) daemonsOf(stepDir string) (pids []int) {
	for _, dir := range c.layout.DaemonDirs(stepDir) {
		pids = counters.AppendPIDs(pids, filepath.Join(dir, procsFile))
	}
	return pids
}
