// Package layout knows how Slurm 22.05 to 26.05 arranges the cgroups of jobs, steps
// and tasks. No other package parses or builds such a path.
//
//	v1: <mount>/slurm[_<node>]/uid_<uid>/job_<id>/step_<name>/task_<number>
//	v2: <mount>/<slice>/[<node>_]slurmstepd.scope/{job_<id>,<SLUID>}/step_<name>/{slurm,user/task_<number>}
//
// https://slurm.schedmd.com/cgroup_v2.html
package layout

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Path is a parsed path of a cgroup. Its texts are empty where the path has no such part.
type Path struct {
	Job     string         // path of the job's directory, which is the parent of a step
	Name    string         // last element of Job: job_<id> or a SLUID
	JobID   rt.Opt[uint64] // number in Name
	Node    string         // name of the slurmd's node
	Step    string         // "0", "batch", "extern", "interactive"
	StepDir string         // path of the step's directory
	Task    rt.Opt[uint64] // number of the task: on this node, or in some hierarchies of v1 in the step
	Part    cgroupfs.Part
}

// Parse is false if the path, of any root, has neither job_<id> nor step_<name>.
func Parse(path string) (p Path, ok bool) {
	parent := ""
	for start := 0; start <= len(path); {
		element, _, _ := strings.Cut(path[start:], "/")
		end := start + len(element)
		if step, isStep := strings.CutPrefix(element, "step_"); isStep && step != "" {
			p.Job, p.Name = path[:max(start-1, 0)], parent
			p.JobID = numberOf(parent, "job_", math.MaxUint32)
			p.Step, p.StepDir = step, path[:end]
			p.Part, p.Task = partOf(path[end:])
			return p, true
		}
		if id := numberOf(element, "job_", math.MaxUint32); id.Valid() && !p.JobID.Valid() {
			p.Job, p.Name, p.JobID = path[:end], element, id
		}
		if node, found := nodeOf(element); found && p.Node == "" {
			p.Node = node
		}
		parent, start = element, end+1
	}
	return p, p.JobID.Valid()
}

// ParseProcess parses /proc/<pid>/cgroup of a process. Hierarchies of v1 may have different
// numbers of one task: the lowest is the number on the node.
func ParseProcess(text string) (p Path, ok bool) {
	for text != "" {
		var path string
		_, path, text = CutEntry(text)
		q, found := Parse(path)
		if !found {
			continue
		}
		isBetter := !ok || q.Step != ""
		if p.Step == "" && isBetter {
			p, ok = q, true
			continue
		}
		isLower := q.Task.Or(0) < p.Task.Or(0) || !p.Task.Valid()
		if q.Task.Valid() && isLower && q.Step == p.Step {
			p.Task = q.Task
		}
	}
	return p, ok
}

// CutEntry cuts the first line "<id>:<controllers>:<path>" off /proc/<pid>/cgroup: v2 has no
// controllers, v1 a list with commas. The path of a malformed line is empty.
func CutEntry(text string) (controllers, path, rest string) {
	line, rest, _ := strings.Cut(text, "\n")
	_, line, _ = strings.Cut(line, ":")
	controllers, path, _ = strings.Cut(line, ":")
	return controllers, path, rest
}

// Slurm is Slurm's layout for package cgroup.
type Slurm struct{}

// Locate returns the step and task to which a directory below a job's belongs. path is
// absolute or relative to the job's directory.
func (Slurm) Locate(path string) cgroupfs.Dir {
	p, _ := Parse(path)
	return cgroupfs.Dir{Step: p.Step, StepDir: p.StepDir, Extern: p.Step == "extern", Task: p.Task, Part: p.Part}
}

// DaemonDirs returns the directories that can have a step's slurmstepd. They are the job's in v1's
// freezer, the step's in v1's other hierarchies, and the step's slurm in v2.
func (Slurm) DaemonDirs(stepDir string) [3]string {
	return [...]string{filepath.Dir(stepDir), stepDir, filepath.Join(stepDir, "slurm")}
}

// partOf parses what follows a step's directory in a path.
func partOf(rest string) (part cgroupfs.Part, task rt.Opt[uint64]) {
	if rest == "" {
		return cgroupfs.PartStep, task
	}
	part = cgroupfs.PartTask
	element, deeper, _ := strings.Cut(rest[1:], "/")
	switch element {
	case "slurm":
		if deeper == "" {
			return cgroupfs.PartDaemon, task
		}
		return cgroupfs.PartNone, task
	case "user":
		if deeper == "" {
			return cgroupfs.PartUser, task
		}
		part = cgroupfs.PartUserTask
		element, deeper, _ = strings.Cut(deeper, "/")
	}
	task = numberOf(element, "task_", math.MaxInt32) // task_special and task_4294967293 are Slurm's own
	if _, isTask := strings.CutPrefix(element, "task_"); !isTask || deeper != "" {
		part = cgroupfs.PartNone
	}
	return part, task
}

// nodeOf returns the node's name of slurm_<node> and <node>_slurmstepd.scope.
func nodeOf(element string) (string, bool) {
	node, ok := strings.CutPrefix(element, "slurm_")
	if !ok {
		node, ok = strings.CutSuffix(element, "_slurmstepd.scope")
	}
	return node, ok
}

// numberOf returns the number of <prefix><number>, absent if it is greater than most.
func numberOf(element, prefix string, most uint64) (n rt.Opt[uint64]) {
	digits, ok := strings.CutPrefix(element, prefix)
	v, isNumber := procfile.Uint([]byte(digits))
	if ok && isNumber && len(digits) <= 10 && v <= most {
		n.Set(v)
	}
	return n
}

// Candidates returns where the cgroup of the run's job may be on its node, in the
// order in which to look. No candidate matches the directory of another node's slurmd
// on the same host: a node's name in a path is this node's. The directory does not
// exist before the Prolog ends.
//
//	v1: <mount>/slurm[_<node>]/uid_<uid>/job_<id>
//	v2: <mount>/<slice>/[<node>_]slurmstepd.scope/{job_<id>,<SLUID>}
//
// The slice is system.slice unless Slurm 25.11 and later has CgroupSlice=; 26.05
// names the directory by the SLUID unless it has CgroupJobIdPaths=yes.
func Candidates(run *rt.Run, mounts cgroupfs.Mounts) []cgroupfs.Candidate {
	id, ok := run.JobID.Get()
	if !ok {
		return nil
	}
	job := "job_" + strconv.FormatUint(id, 10)
	var list []cgroupfs.Candidate
	if mounts.V2 != "" {
		list = candidatesV2(run, mounts.V2, job)
	}
	if len(mounts.V1) > 0 {
		list = append(list, candidatesV1(run, mounts.V1, job)...)
	}
	return list
}

func candidatesV1(run *rt.Run, mounts map[string]string, job string) []cgroupfs.Candidate {
	user := "uid_*"
	if uid, ok := run.UID.Get(); ok {
		user = "uid_" + strconv.FormatUint(uid, 10)
	}
	var list []cgroupfs.Candidate
	add := func(layout, top string) {
		dirs := make(map[string]string, len(cgroupfs.ControllersV1))
		for _, controller := range cgroupfs.ControllersV1 {
			if mount := mounts[controller]; mount != "" {
				dirs[controller] = filepath.Join(Escape(mount), top, user, job)
			}
		}
		if len(dirs) > 0 {
			list = append(list, cgroupfs.Candidate{Layout: layout, Version: 1, Dirs: dirs})
		}
	}
	if run.Node != "" {
		add("v1/slurm_<node>", "slurm_"+Escape(run.Node))
	}
	add("v1/slurm", "slurm")
	return list
}

func candidatesV2(run *rt.Run, mount, job string) []cgroupfs.Candidate {
	names := []string{job}
	kinds := []string{""}
	if run.SLUID != "" {
		names = []string{run.SLUID, job}
		kinds = []string{"/sluid", ""}
	}
	type scope struct{ layout, path string }
	scopes := []scope{{"slurmstepd.scope", "slurmstepd.scope"}}
	if run.Node != "" {
		scopes = append([]scope{{"<node>_slurmstepd.scope", Escape(run.Node) + "_slurmstepd.scope"}}, scopes...)
	}
	slices := []scope{
		{"v2/", "system.slice"},
		{"v2/<slice>/", "*.slice"},
		{"v2/<slice>/<slice>/", "*.slice/*.slice"}, // systemd puts a-b.slice below a.slice
	}
	var list []cgroupfs.Candidate
	for _, slice := range slices {
		for _, s := range scopes {
			for i, name := range names {
				list = append(list, cgroupfs.Candidate{
					Layout:  slice.layout + s.layout + kinds[i],
					Version: 2,
					Dirs:    map[string]string{cgroupfs.Unified: filepath.Join(Escape(mount), slice.path, s.path, name)},
				})
			}
		}
	}
	return list
}

// escaper escapes the characters that have a meaning in a pattern of filepath.Match.
var escaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Escape makes a name literal in a pattern of filepath.Match.
func Escape(name string) string { return escaper.Replace(name) }
