package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tell lets others take their readings of steps that begin and end. It goes without
// the job's lock: who takes a reading holds it at the lowest priority, and on a node
// whose every core is busy that can last longer than a short step.
func (j *Job) tell(notices []notice) {
	var begun, ended []string
	for _, n := range notices {
		path := filepath.Join(n.dir, n.name)
		dir, step, ok := stepDir(path)
		switch {
		case !ok:
		case n.created() && j.begins != nil && !slices.Contains(begun, dir):
			begun = append(begun, dir)
			j.begins(stepdsOf(dir))
		case n.removed() && j.ends != nil && !slices.Contains(ended, dir):
			ended = append(ended, dir)
			if tasksBeside(path) {
				step = "" // v2 removes each task's when that one ends
			}
			j.ends(step, stepdsOf(dir))
		}
	}
}

// stepDir is the directory of the step that path belongs to, and the step's name.
func stepDir(path string) (dir, step string, ok bool) {
	const prefix = "/step_"
	i := strings.Index(path, prefix)
	if i < 0 {
		return "", "", false
	}
	if end := strings.IndexByte(path[i+1:], '/'); end >= 0 {
		path = path[:i+1+end]
	}
	return path, path[i+len(prefix):], true
}

// tasksBeside says whether path is the directory of a task beside which there are
// others.
func tasksBeside(path string) bool {
	dir, name := filepath.Split(path)
	if !strings.HasPrefix(name, "task_") {
		return false
	}
	entries, _ := os.ReadDir(dir) // it is gone: so are they
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		n, ok := strings.CutPrefix(e.Name(), "task_")
		_, err := strconv.ParseUint(n, 10, 31)
		return ok && err == nil
	})
}

// stepdsOf lists the processes where Slurm keeps the daemon of a step: the job's
// directory in v1's freezer, the step's in v1's other hierarchies, the step's slurm
// in v2. The job's own processes are among them.
func stepdsOf(step string) (pids []int) {
	var list pidList
	for _, dir := range [...]string{filepath.Dir(step), step, filepath.Join(step, "slurm")} {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // it is gone, or of the other version
		}
		list.add(text, &pids)
		list.end(&pids)
	}
	return pids
}
