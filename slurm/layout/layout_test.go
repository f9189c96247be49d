package layout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// describe prints all parts of a path.
func describe(p Path) string {
	text := fmt.Sprintf("job %s name %s node %s step %s part %d", p.Job, p.Name, p.Node, p.Step, p.Part)
	if id, ok := p.JobID.Get(); ok {
		text += fmt.Sprint(" id ", id)
	}
	if n, ok := p.Task.Get(); ok {
		text += fmt.Sprint(" task ", n)
	}
	return text
}

func TestParse(t *testing.T) {
	const v1, v2 = "/slurm_n1/uid_1001/job_12", "/system.slice/n1_slurmstepd.scope/job_12"
	const sluid = "/batch.slice/slurmstepd.scope/s0123456789ABC"
	in1 := "job " + v1 + " name job_12 node n1 step "
	in2 := "job " + v2 + " name job_12 node n1 step "
	for path, want := range map[string]string{
		v1:                          in1 + " part 0 id 12",
		v1 + "/step_batch":          in1 + "batch part 1 id 12",
		v1 + "/step_0/task_3":       in1 + "0 part 4 id 12 task 3",
		v1 + "/step_0/task_3/mine":  in1 + "0 part 0 id 12 task 3",
		v1 + "/step_0/task_special": in1 + "0 part 4 id 12",
		v1 + "/other":               in1 + " part 0 id 12",

		v2:                                 in2 + " part 0 id 12",
		v2 + "/step_extern":                in2 + "extern part 1 id 12",
		v2 + "/step_0/slurm":               in2 + "0 part 3 id 12",
		v2 + "/step_0/slurm/deeper":        in2 + "0 part 0 id 12",
		v2 + "/step_0/user":                in2 + "0 part 2 id 12",
		v2 + "/step_0/user/task_1":         in2 + "0 part 5 id 12 task 1",
		v2 + "/step_0/user/task_1/task_2":  in2 + "0 part 0 id 12 task 1",
		v2 + "/step_0/user/task_special":   in2 + "0 part 5 id 12",
		v2 + "/step_0/task_4294967293":     in2 + "0 part 4 id 12",
		sluid + "/step_interactive/user":   "job " + sluid + " name s0123456789ABC node  step interactive part 2",
		"/slurm/uid_7/job_12/step_0":       "job /slurm/uid_7/job_12 name job_12 node  step 0 part 1 id 12",
		"step_0/user/task_1":               "job  name  node  step 0 part 5 task 1",
		"/a/job_5/box/step_1":              "job /a/job_5/box name box node  step 1 part 1",
		"/system.slice/slurmd.service":     "",
		"/job_x/step_":                     "",
		"/task_1":                          "",
		"":                                 "",
		"/slurm/uid_7/job_4294967296":      "",
		"/slurm/uid_7/job_4294967295/mine": "job /slurm/uid_7/job_4294967295 name job_4294967295 node  step  part 0 id 4294967295",
	} {
		p, ok := Parse(path)
		if got := describe(p); ok != (want != "") || ok && got != want {
			t.Errorf("%q:\ngot  %s (%t)\nwant %s", path, got, ok, want)
		}
	}
}

// What is a group depends on the version of the interface.
func TestIsGroup(t *testing.T) {
	for _, tt := range []struct {
		version int
		path    string
		want    bool
	}{
		{1, "step_0", true}, {1, "step_batch/task_0", true}, {1, "step_0/task_special", false}, {1, "step_", false}, {1, "other", false},
		{1, "step_0/user", false}, {1, "step_0/task_0/mine", false},
		{2, "step_0", false}, {2, "step_0/slurm", false}, {2, "step_0/user", true}, {2, "step_extern/user/task_0", true},
		{2, "step_0/user/task_special", false}, {2, "step_0/user/task_1/task_2", false}, {2, "step_0/task_0", false},
	} {
		if got := (Slurm{}).Locate(tt.path).IsGroup(tt.version); got != tt.want {
			t.Errorf("v%d %s: %t", tt.version, tt.path, got)
		}
	}
}

func TestParseProcess(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/n1_slurmstepd.scope/job_1/step_batch/user/task_0\n":                            "1 batch 0",
		"0::/system.slice/slurmstepd.scope/s0123456789ABC/step_12/user/task_special\n":                   "- 12 -",
		"11:freezer:/slurm_n1/uid_0/job_7/step_3\n4:memory:/slurm_n1/uid_0/job_7/step_3/task_2\n0::/x\n": "7 3 2",
		"4:memory:/slurm/uid_0/job_7/step_extern/task_0\n11:freezer:/slurm/uid_0/job_7/step_extern\n":    "7 extern 0",
		"4:cpuacct:/slurm/uid_0/job_7/step_0/task_5\n3:memory:/slurm/uid_0/job_7/step_0/task_1\n":        "7 0 1",
		"4:cpuacct:/slurm/uid_0/job_7\n3:memory:/slurm/uid_0/job_7/step_0/task_1\n":                      "7 0 1",
		"4:memory:/slurm/uid_0/job_7\n": "7  -",
		"0::/user.slice/user-0.slice\n": "",
		"0::/task_1/step_\n":            "",
		"garbage\n::\n":                 "",
		"":                              "",
	} {
		p, ok := ParseProcess(text)
		number := func(n rt.Opt[uint64]) string {
			if v, ok := n.Get(); ok {
				return fmt.Sprint(v)
			}
			return "-"
		}
		got := number(p.JobID) + " " + p.Step + " " + number(p.Task)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q (%t), want %q", text, got, ok, want)
		}
	}
}

func TestDaemonDirs(t *testing.T) {
	if got := (Slurm{}).DaemonDirs("/cg/job_1/step_0"); got != [3]string{"/cg/job_1", "/cg/job_1/step_0", "/cg/job_1/step_0/slurm"} {
		t.Errorf("%q", got)
	}
}

// FuzzParse: the parts of a path are parts of its text, in their order.
func FuzzParse(f *testing.F) {
	f.Add("/slurm_n1/uid_1001/job_12/step_batch/task_0")
	f.Add("step_0/user/task_4294967293")
	f.Fuzz(func(t *testing.T, path string) {
		p, ok := Parse(path)
		if !ok {
			return
		}
		if !strings.HasPrefix(path, p.Job) || !strings.HasPrefix(path, p.StepDir) || !strings.HasSuffix(p.StepDir, p.Step) || !strings.HasSuffix(p.Job, p.Name) {
			t.Errorf("%q: %+v", path, p)
		}
		if p.Task.Valid() && !strings.Contains(path, "/task_") || p.Part != cgroupfs.PartNone && p.Step == "" {
			t.Errorf("%q: %+v", path, p)
		}
	})
}

func FuzzParseProcess(f *testing.F) {
	f.Add("4:cpu,cpuacct:/slurm_n1/uid_1001/job_12/step_batch/task_0\n0::/x\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := ParseProcess(text); p.Task.Valid() && len(p.Step) == 0 || !ok && len(p.Step) > 0 {
			t.Errorf("%q: %+v", text, p)
		}
	})
}
