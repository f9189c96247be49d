package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

func v2(dir string) cgroupfs.Candidate {
	return cgroupfs.Candidate{Layout: "v2", Version: 2, Dirs: map[string]string{cgroupfs.Unified: dir}}
}

// What other jobs make in the same directories is no reason to look for this one's.
func TestOthersAreNotLookedAt(t *testing.T) {
	root := t.TempDir()
	mkdir(t, filepath.Join(root, "slurm_n1"))
	mkdir(t, filepath.Join(root, "scopes"))
	w := manual(t,
		cgroupfs.Candidate{Layout: "v1", Version: 1, Dirs: map[string]string{"memory": filepath.Join(root, "slurm_n1/uid_*/job_12")}},
		v2(filepath.Join(root, "scopes/*.scope/job_12"))).state.watch
	check := func(when string, awaited map[string]bool) {
		t.Helper()
		for name, want := range awaited {
			if got := w.search.awaits(filepath.Join(root, name)); got != want {
				t.Errorf("%s, %s is awaited: %t, want %t", when, name, got, want)
			}
		}
	}
	check("at first", map[string]bool{
		"slurm_n1/uid_7": true, "slurm_n1/task_0": false, "scopes/n1.scope": true, "scopes/n1.slice": false, "slurm": false,
	})
	mkdir(t, filepath.Join(root, "slurm_n1/uid_7"))
	w.LookFor(filepath.Join(root, "slurm_n1/uid_7"))
	check("once there is a user", map[string]bool{"slurm_n1/uid_7/job_12": true, "slurm_n1/uid_7/job_13": false, "slurm_n1/uid_8": true})
}

// If a watch cannot be renewed, for lack of memory for example, the directory is not taken
// for another one. Otherwise its counters would count twice.
func TestWatchCannotBeRenewed(t *testing.T) {
	root := t.TempDir()
	job := filepath.Join(root, "job_2")
	mkdir(t, filepath.Join(job, "step_0"))
	s := &manual(t, v2(job)).state
	want := []string{job, filepath.Join(job, "step_0")}
	for _, reason := range []error{nil, unix.ENOMEM, unix.ENOMEM, nil} {
		s.watch.off = reason
		s.watch.Scan(job, job)
		s.watch.FollowParent(job)
		var entered []string
		s.tasks.EachDirectory(job, func(path string, _ *directoryFiles) { entered = append(entered, path) })
		if !slices.Equal(entered, want) || !s.watch.Exists(job) || s.watch.TakeReplaced() || (s.err != nil) != (reason != nil) {
			t.Errorf("with %v: entered %q, failed with %v", reason, entered, s.err)
		}
		s.err = nil
	}
	if err := os.RemoveAll(job); err != nil {
		t.Fatal(err)
	}
	mkdir(t, job)
	if s.watch.Exists(job) {
		t.Error("a directory that was replaced is still the one that was entered")
	}
}

func TestBelow(t *testing.T) {
	root := t.TempDir()
	job := filepath.Join(root, "job_2")
	mkdir(t, filepath.Join(job, "step_0/user/task_0/mine/deeper"))
	w := manual(t, v2(job)).state.watch
	var got []string
	for _, path := range w.Below(job) {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, rel)
	}
	if want := []string{"job_2/step_0/user/task_0/mine", "job_2/step_0/user/task_0", "job_2/step_0/user", "job_2/step_0", "job_2"}; !slices.Equal(got, want) {
		t.Errorf("%q, want children before parents: %q", got, want)
	}
	w.Remove(filepath.Join(job, "step_0"))
	if got := w.Below(job); !slices.Equal(got, []string{job}) || !w.Covers(filepath.Join(job, "step_0")) || w.Covers(job+"0") {
		t.Errorf("%q is left", got)
	}
}
