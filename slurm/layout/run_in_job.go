package layout

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// InsideJob reports whether /proc/self/cgroup belongs to a process in the extern step of a job, and
// returns its path. With PrologFlags=RunInJob the hooks run there.
func InsideJob(text []byte) (string, bool) {
	for rest := string(text); rest != ""; {
		var path string
		_, path, rest = CutEntry(rest)
		if _, inside := externJob(path); inside {
			return path, true
		}
	}
	return "", false
}

// trackers is the name of the cgroup of the trackers, next to the directories of the jobs.
const trackers = "rt"

// TrackerDir returns the directory of the cgroup for a tracker that a Prolog in the extern
// step of a job starts. It is in the scope of the slurmstepds, which systemd leaves to Slurm and which
// stays when slurmd restarts. text is /proc/self/cgroup of the Prolog. It fails if the job has
// cgroups of v1, or if the unified hierarchy is not mounted.
func TrackerDir(text []byte, mounts cgroupfs.Mounts) (dir string, err error) {
	for rest := string(text); rest != ""; {
		var controllers, path string
		controllers, path, rest = CutEntry(rest)
		job, inside := externJob(path)
		switch {
		case !inside:
		case controllers != "":
			return "", errors.New("the job has cgroups of v1")
		case mounts.V2 == "":
			return "", errors.New("cgroup v2 is not mounted")
		default:
			dir = filepath.Join(mounts.V2, filepath.Dir(job), trackers)
		}
	}
	if dir == "" {
		return "", errors.New("the process is in no extern step")
	}
	return dir, nil
}

// externJob returns the path of the job of an extern step. The last one counts, because slurmd
// may itself run in a job.
func externJob(path string) (job string, inside bool) {
	i := strings.LastIndex(path+"/", "/step_extern/")
	if i < 0 {
		return "", false
	}
	return path[:i], true
}
