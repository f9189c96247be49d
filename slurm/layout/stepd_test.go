package layout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// proc makes a directory like /proc: pid to cmdline, parent and cgroup. Processes
// from 600 on belong to a user.
func proc(t *testing.T, processes map[string][3]string) string {
	t.Helper()
	root := t.TempDir()
	for pid, p := range processes {
		dir := filepath.Join(root, pid)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		stat := pid + " (some) name) S " + p[1] + " 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 1\n"
		status := "Name:\tsome\nUid:\t0\t1001\t0\t1001\n"
		if pid > "500" {
			status = "Name:\tsome\nUid:\t1001\t0\t0\t0\n" // of a user
		}
		for name, text := range map[string]string{"cmdline": p[0], "stat": stat, "cgroup": p[2], "status": status} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(root, "sys"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestStepdCgroup(t *testing.T) {
	v2 := func(path string) string { return "0::" + path + "\n" }
	const v1 = "6:freezer:/slurm_n1/uid_1001/job_12/step_batch\n4:memory:/slurm_n1/uid_1001/job_12/step_batch/task_0\n2:cpu,cpuacct:/slurm_n1/uid_1001/job_12/step_batch/task_0\n0::/\n"
	mounts := cgroupfs.Mounts{V1: map[string]string{"memory": "/cg/memory", "freezer": "/cg/freezer", "cpuacct": "/cg/cpuacct"}, V2: "/cg/unified"}
	tests := []struct {
		name  string
		het   rt.Opt[uint64]
		procs map[string][3]string
		want  cgroupfs.Candidate
	}{
		{"v2", rt.None[uint64](), map[string][3]string{
			"100": {"slurmstepd: [12.extern]", "1", v2("/custom.slice/n1_slurmstepd.scope/job_12/step_extern/slurm")},
		}, cgroupfs.Candidate{Layout: "slurmstepd", Version: 2, Dirs: map[string]string{"": "/cg/unified/custom.slice/n1_slurmstepd.scope/job_12"}}},
		{"v2 by SLUID", rt.None[uint64](), map[string][3]string{
			"100": {"slurmstepd: [12.0]", "1", v2("/a.slice/b.slice/c.slice/slurmstepd.scope/s0123456789ABC/step_0/slurm")},
		}, cgroupfs.Candidate{Layout: "slurmstepd", Version: 2, Dirs: map[string]string{"": "/cg/unified/a.slice/b.slice/c.slice/slurmstepd.scope/s0123456789ABC"}}},
		{"another node of this host first", rt.None[uint64](), map[string][3]string{
			"100": {"slurmstepd: [12.0]", "1", v2("/system.slice/n2_slurmstepd.scope/job_12/step_0/slurm")},
			"101": {"slurmstepd: [12.0]", "1", v2("/system.slice/n1_slurmstepd.scope/job_12/step_0/slurm")},
		}, cgroupfs.Candidate{Layout: "slurmstepd", Version: 2, Dirs: map[string]string{"": "/cg/unified/system.slice/n1_slurmstepd.scope/job_12"}}},
		{"v1, by a child", rt.None[uint64](), map[string][3]string{
			"100": {"slurmstepd: [12.batch]", "1", "4:memory:/system.slice/slurmd.service\n"},
			"105": {"/bin/bash\x00script", "100", v1},
			"106": {"/bin/bash\x00other", "99", strings.ReplaceAll(v1, "job_12", "job_13")},
		}, cgroupfs.Candidate{Layout: "slurmstepd", Version: 1, Dirs: map[string]string{
			"memory": "/cg/memory/slurm_n1/uid_1001/job_12", "freezer": "/cg/freezer/slurm_n1/uid_1001/job_12", "cpuacct": "/cg/cpuacct/slurm_n1/uid_1001/job_12",
		}}},
		{"component, titled by its leader", rt.Some[uint64](11), map[string][3]string{
			"100": {"slurmstepd: [11.0+0]", "1", v2("/system.slice/slurmstepd.scope/job_11/step_0/slurm")},
			"101": {"slurmstepd: [11.0+1]", "1", v2("/system.slice/slurmstepd.scope/job_12/step_0/slurm")},
		}, cgroupfs.Candidate{Layout: "slurmstepd", Version: 2, Dirs: map[string]string{"": "/cg/unified/system.slice/slurmstepd.scope/job_12"}}},
		{"other jobs only", rt.None[uint64](), map[string][3]string{
			"100": {"slurmstepd: [112.0]", "1", v2("/system.slice/slurmstepd.scope/job_112/step_0/slurm")},
			"101": {"slurmstepd: [1.12]", "1", v2("/system.slice/slurmstepd.scope/job_1/step_12/slurm")},
			"102": {"/bin/sh\x00slurmstepd: [12.0]", "1", v2("/system.slice/slurmstepd.scope/job_12/step_0/slurm")},
			"103": {"slurmstepd infinity", "1", v2("/system.slice/slurmstepd.scope/system")},
			"600": {"slurmstepd: [12.0]", "1", v2("/system.slice/slurmstepd.scope/job_12/step_0/slurm")}, // a user's process with this title
		}, cgroupfs.Candidate{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), HetJobID: tt.het, Node: "n1"}}
			got, err := StepdCgroup(proc(t, tt.procs), &run, mounts)
			if missing := errors.Is(err, ErrNoStepd); missing != (tt.want.Version == 0) {
				t.Fatalf("error %v", err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if _, err := StepdCgroup(filepath.Join(t.TempDir(), "missing"), &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1)}}, mounts); err == nil || errors.Is(err, ErrNoStepd) {
		t.Errorf("without /proc: %v", err)
	}
}

func FuzzJobDirs(f *testing.F) {
	f.Add([]byte("0::/system.slice/n1_slurmstepd.scope/job_12/step_0/slurm\n"))
	f.Add([]byte("4:memory:/slurm_n1/uid_1001/job_12/step_batch/task_0\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, ok := jobDirs(text, 12, "n1", cgroupfs.Mounts{V1: map[string]string{"memory": "/cg/memory"}, V2: "/cg/v2"})
		if !ok {
			return
		}
		for _, dir := range []string{c.Dirs[""], c.Dirs["memory"]} {
			if dir != "" && !strings.HasPrefix(dir, "/cg/") {
				t.Errorf("%q leads to %q", text, dir)
			}
		}
	})
}
