package cgroup

import (
	"os"
	"path/filepath"
	"slices"
)

// callbacks are the functions that a Job calls when steps begin and end.
type callbacks struct {
	layout Layout
	ends   func(step string, stepds []int) // Options.StepEnds
	begins func(stepds []int)              // Options.StepBegins
}

// stepsEnd calls ends for the steps that end. It runs without the job's lock. It runs before the
// reading, because the step's daemon exits some milliseconds later.
func (c *callbacks) stepsEnd(notices []notice) {
	if c.ends == nil {
		return
	}
	var ended []string
	for _, n := range notices {
		path := n.Path()
		d := c.layout.Locate(path)
		if d.Step == "" || !n.Removed() || slices.Contains(ended, d.StepDir) {
			continue
		}
		ended = append(ended, d.StepDir)
		step := d.Step
		if d.IsTaskDir() && c.hasTasks(filepath.Dir(path)) {
			step = "" // only the task has ended: v2 removes its directory then
		}
		c.ends(step, c.daemonsOf(d.StepDir))
	}
}

// stepsBegin calls begins for the steps that begin. It runs without the job's lock, and
// after the files of the steps were opened. On a busy node begins may wait for a thread
// longer than a short step lasts.
func (c *callbacks) stepsBegin(notices []notice) {
	if c.begins == nil {
		return
	}
	var begun []string
	for _, n := range notices {
		d := c.layout.Locate(n.Path())
		if d.Step == "" || !n.Created() || slices.Contains(begun, d.StepDir) {
			continue
		}
		begun = append(begun, d.StepDir)
		c.begins(c.daemonsOf(d.StepDir))
	}
}

// hasTasks reports whether dir has the directory of a task.
func (c *callbacks) hasTasks(dir string) bool {
	entries, _ := os.ReadDir(dir) // on an error, dir was removed with all it had
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		d := c.layout.Locate(filepath.Join(dir, e.Name()))
		return d.IsTaskDir() && d.Task.Valid()
	})
}

// daemonsOf returns the processes of the cgroups in which the daemon of a step can be. Some of
// these cgroups also have processes of the job.
func (c *callbacks) daemonsOf(stepDir string) (pids []int) {
	for _, dir := range c.layout.DaemonDirs(stepDir) {
		pids = appendPIDs(pids, filepath.Join(dir, procsFile))
	}
	return pids
}
