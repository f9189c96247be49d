// Package cgroupfs describes control groups in the file system: the mounts of the kernel's hierarchies, the
// directories of a job's cgroup, and the directories below.
package cgroupfs

import (
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Unified is the key of Candidate.Dirs for cgroup v2, which has one hierarchy.
const Unified = ""

// Candidate is one place where a job's cgroup may appear.
type Candidate struct {
	// Layout names the rule that made the candidate: "v1/slurm_<node>",
	// "v2/<node>_slurmstepd.scope". It is recorded with the run.
	Layout string
	// Version is the version of the cgroup interface, 1 or 2.
	Version int
	// Dirs are absolute paths of the job's directory. v2: the only key is Unified. v1: a path for each controller
	// ("cpuacct", "memory", "freezer", "cpu", "pids", "blkio", ...). Controllers that are mounted together may name
	// the same directory. A directory that never appears does no harm. An element of a path may be a pattern of
	// path.Match.
	Dirs map[string]string
}

// ControllersV1 are the controllers of v1 that have counters of a job or a directory of
// it, the important ones first.
var ControllersV1 = [...]string{"cpuacct", "memory", "freezer", "pids", "cpu", "blkio", "cpuset", "devices"}

// Rank is the place of a controller in ControllersV1, the lowest for the most important.
func Rank(controller string) int {
	if i := slices.Index(ControllersV1[:], controller); i >= 0 {
		return i
	}
	return len(ControllersV1)
}

// Part is the role of a directory below a job's.
type Part uint8

// The parts. slurmstepd is the resource manager's daemon of one step.
const (
	PartNone     Part = iota // none of those below
	PartStep                 // step_0. v1: the cgroup of the step. v2: the parent of PartUser and PartDaemon
	PartUser                 // v2: step_0/user, the cgroup of the step without slurmstepd
	PartDaemon               // v2: step_0/slurm, the cgroup of slurmstepd
	PartTask                 // v1: step_0/task_0, or task_special without a number
	PartUserTask             // v2: step_0/user/task_0
)

// Dir says to which step and task a directory below a job's belongs.
type Dir struct {
	Step    string         // its name: "0", "batch", "extern"; empty for a directory of no step
	StepDir string         // path of the step's directory, the beginning of the directory's own
	Extern  bool           // the step lasts as long as the job, with a process of the resource manager
	Task    rt.Opt[uint64] // number of the task
	Part    Part
}

// IsGroup reports whether the directory is the cgroup of a step or task in a version of
// the cgroup interface.
func (d Dir) IsGroup(version int) bool {
	step, task := PartUser, PartUserTask
	if version == 1 {
		step, task = PartStep, PartTask
	}
	if d.Part == task {
		return d.Task.Valid()
	}
	return d.Part == step
}

// IsTaskDir reports whether the directory is the cgroup of a task: of the user's or, like
// task_special, of the resource manager's.
func (d Dir) IsTaskDir() bool { return d.Part == PartTask || d.Part == PartUserTask }

// IsBelow reports whether path is dir or below it.
func IsBelow(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	isElement := rest == "" || rest[0] == '/'
	return ok && isElement
}
