package layout

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

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

// Escape makes a name literal in a pattern of filepath.Match.
func Escape(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}
