package slurm

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Mounts says where the cgroup hierarchies are mounted.
type Mounts struct {
	V1 map[string]string // controller ("memory", "cpuacct", ...) to mount point
	V2 string            // mount point of the unified hierarchy; empty where there is none
}

// Candidate is a place where the job's cgroup may be. Its directories are
// patterns of filepath.Match where Slurm's configuration leaves a name open; the
// rest is literal, escaped where a name has characters of a pattern.
type Candidate struct {
	Layout  string            // the rule that made it, kept with the run: "v1/slurm_<node>", "v2/<node>_slurmstepd.scope", ...
	Version int               // of the cgroup interface: 1 or 2
	Dirs    map[string]string // version 1: controller to the job's directory in its hierarchy
	Dir     string            // version 2: the job's directory
}

// controllers of version 1 that Slurm puts jobs into or that have figures of a
// job. The freezer comes first in time when Slurm makes a job's directories.
var controllers = []string{"freezer", "cpuset", "memory", "cpuacct", "cpu", "pids", "devices", "blkio"}

// Candidates returns where the cgroup of the run's job may be on its node, in the
// order in which to look. None of them can match the directory of another node's
// slurmd on the same host: where the node's name is part of the path it is this
// node's. The directory does not exist before the Prolog has ended.
//
//	v1: <mount>/slurm[_<node>]/uid_<uid>/job_<id>
//	v2: <mount>/<slice>/[<node>_]slurmstepd.scope/{job_<id>,<SLUID>}
//
// The slice is system.slice unless Slurm 25.11 and later has CgroupSlice=; 26.05
// names the directory by the SLUID unless it has CgroupJobIdPaths=yes.
func Candidates(run *rt.Run, mounts Mounts) []Candidate {
	id, ok := run.JobID.Get()
	if !ok {
		return nil
	}
	job := "job_" + strconv.FormatUint(id, 10)
	var list []Candidate
	if mounts.V2 != "" {
		list = candidatesV2(run, mounts.V2, job)
	}
	if len(mounts.V1) > 0 {
		list = append(list, candidatesV1(run, mounts.V1, job)...)
	}
	return list
}

func candidatesV1(run *rt.Run, mounts map[string]string, job string) []Candidate {
	user := "uid_*"
	if uid, ok := run.UID.Get(); ok {
		user = "uid_" + strconv.FormatUint(uid, 10)
	}
	var list []Candidate
	add := func(layout, top string) {
		dirs := make(map[string]string, len(controllers))
		for _, controller := range controllers {
			if mount := mounts[controller]; mount != "" {
				dirs[controller] = filepath.Join(escape(mount), top, user, job)
			}
		}
		if len(dirs) > 0 {
			list = append(list, Candidate{Layout: layout, Version: 1, Dirs: dirs})
		}
	}
	if run.Node != "" {
		add("v1/slurm_<node>", "slurm_"+escape(run.Node))
	}
	add("v1/slurm", "slurm")
	return list
}

func candidatesV2(run *rt.Run, mount, job string) []Candidate {
	names := []string{job}
	kinds := []string{""}
	if run.SLUID != "" {
		names = []string{run.SLUID, job}
		kinds = []string{"/sluid", ""}
	}
	type scope struct{ layout, path string }
	scopes := []scope{{"slurmstepd.scope", "slurmstepd.scope"}}
	if run.Node != "" {
		scopes = append([]scope{{"<node>_slurmstepd.scope", escape(run.Node) + "_slurmstepd.scope"}}, scopes...)
	}
	slices := []scope{
		{"v2/", "system.slice"},
		{"v2/<slice>/", "*.slice"},
		{"v2/<slice>/<slice>/", "*.slice/*.slice"}, // systemd puts a-b.slice below a.slice
	}
	var list []Candidate
	for _, slice := range slices {
		for _, s := range scopes {
			for i, name := range names {
				list = append(list, Candidate{
					Layout:  slice.layout + s.layout + kinds[i],
					Version: 2,
					Dir:     filepath.Join(escape(mount), slice.path, s.path, name),
				})
			}
		}
	}
	return list
}

// escape makes a name literal in a pattern of filepath.Match.
func escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
