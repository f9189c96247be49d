package layout

import (
	"strings"
	"testing"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

func TestInsideJob(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/slurmd.service\n":                                   "",
		"0::/system.slice/slurmstepd.scope/job_5/step_extern/user/task_0\n":   "/system.slice/slurmstepd.scope/job_5/step_extern/user/task_0",
		"4:memory:/slurm/uid_1/job_5/step_extern\n0::/\n":                     "/slurm/uid_1/job_5/step_extern",
		"0::/system.slice/slurmstepd.scope/job_5/step_external/user\n":        "",
		"0::/job_1/step_0/user/task_0/job_12/step_extern/user/task_special\n": "/job_1/step_0/user/task_0/job_12/step_extern/user/task_special",
		"garbage\n":                      "",
		"0::/user.slice/step_extern.x\n": "",
	} {
		if got, inside := InsideJob([]byte(text)); got != want || inside != (want != "") {
			t.Errorf("%q: %q, %v", text, got, inside)
		}
	}
}

func TestTrackerDir(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/slurmstepd.scope/job_5/step_extern/slurm\n":                 "/cg/system.slice/slurmstepd.scope/rt",
		"0::/system.slice/n1_slurmstepd.scope/s5PNM81R23G500/step_extern/slurm\n":     "/cg/system.slice/n1_slurmstepd.scope/rt",
		"1:name=systemd:/\n0::/batch.slice/slurmstepd.scope/job_5/step_extern/user\n": "/cg/batch.slice/slurmstepd.scope/rt",
		"0::/job_1/step_0/user/task_0/job_12/step_extern/slurm\n":                     "/cg/job_1/step_0/user/task_0/rt",
		"4:memory:/slurm/uid_1/job_5/step_extern\n0::/\n":                             "",
		"0::/system.slice/slurmd.service\n":                                           "",
		"":                                                                            "",
	} {
		got, err := TrackerDir([]byte(text), cgroupfs.Mounts{V2: "/cg"})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	_, err := TrackerDir([]byte("0::/x.scope/job_5/step_extern/slurm\n"), cgroupfs.Mounts{})
	if err == nil || !strings.Contains(err.Error(), "not mounted") {
		t.Errorf("without a mount of v2: %v", err)
	}
}
