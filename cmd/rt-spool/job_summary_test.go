package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// jobSummary is contrib's script with a program, a cgroup and a time limit of the test.
type jobSummary struct {
	program string            // of sh, in place of rt-spool; one with "hang" gets a short time limit
	cgroup  string            // /proc/self/cgroup
	files   map[string]string // below /sys/fs/cgroup
	env     []string
}

// run returns what the script prints. It fails the test if the status is not 0.
func (j jobSummary) run(t *testing.T) (stdout, stderr string) {
	t.Helper()
	text, err := os.ReadFile("../../contrib/slurm/hooks/job-summary")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		syscall.ForkLock.RLock() // no child of another test has it open for writing when it is executed (ETXTBSY)
		err := os.WriteFile(path, []byte(text), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	program := filepath.Join(dir, "no-program")
	if j.program != "" {
		program = write("rt-spool", "#!/bin/sh\n"+j.program+"\n")
	}
	for name, text := range j.files {
		write("sys/"+name, text+"\n")
	}
	limit := "timeout -k 60 600 " // no test measures how soon a program ends
	if strings.Contains(j.program, "hang") {
		limit = "timeout -k 0.1 0.1 "
	}
	for from, to := range map[string]string{
		"timeout -k 1 5 ": limit, "/usr/local/bin/rt-spool": program,
		"/proc/self/cgroup": write("cgroup", j.cgroup+"\n"), "/sys/fs/cgroup": filepath.Join(dir, "sys"),
	} {
		if !bytes.Contains(text, []byte(from)) {
			t.Fatalf("the script does not have %q", from)
		}
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	cmd := exec.Command("sh", write("job-summary", string(text)))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "SLURM_JOB_ID=12", "SLURMD_NODENAME=n1"}, j.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	return out.String(), errs.String()
}

// The line goes to the job's output. Nothing that fails has an effect on the job.
func TestJobSummaryNeverFails(t *testing.T) {
	t.Parallel()
	const good = `echo "$*"`
	const line = "report --format oneline --node n1 12\n"
	for _, tt := range []struct {
		name, program  string
		env            []string
		stdout, stderr string
	}{
		{"in a batch script", good, nil, line, ""},
		{"of the batch step", good, []string{"SLURM_SCRIPT_CONTEXT=epilog_task"}, "", line},
		{"of the batch step of a later version", good, []string{"SLURM_SCRIPT_CONTEXT=epilog_task", "SLURM_STEP_ID=4294967291"}, "", line},
		{"of a step", good, []string{"SLURM_SCRIPT_CONTEXT=epilog_task", "SLURM_STEP_ID=0"}, "", ""},
		{"of the last task of an array", good, []string{"SLURM_ARRAY_JOB_ID=12", "SLURM_ARRAY_TASK_ID=3"}, "report --format oneline --node n1 12_3\n", ""},
		{"of another task of an array", good, []string{"SLURM_ARRAY_JOB_ID=11", "SLURM_ARRAY_TASK_ID=3"}, line, ""},
		{"not in a job", good, []string{"SLURM_JOB_ID="}, "", ""},
		{"not an id", good, []string{"SLURM_JOB_ID=--html"}, "", ""},
		{"no record", "echo 'no such run' >&2; exit 1", nil, "", ""},
		{"no program", "", nil, "", ""},
		{"hangs", "exec sleep 3600 # hang", nil, "", ""},
		{"hangs and ignores TERM", "trap '' TERM; while :; do :; done # hang", nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := jobSummary{program: tt.program, env: tt.env}.run(t)
			if stdout != tt.stdout || strings.Contains(stderr, "report") != (tt.stderr != "") {
				t.Errorf("printed %q and %q", stdout, stderr)
			}
		})
	}
}

// A job with little memory left is not killed for the memory of its summary.
func TestJobSummaryNeedsMemory(t *testing.T) {
	t.Parallel()
	const v1, v2 = "memory/slurm_n1/uid_1001/job_12/memory.", "system.slice/n1_slurmstepd.scope/job_12/memory."
	const in1 = "9:freezer:/slurm_n1/uid_1001/job_12/step_batch\n4:memory:/slurm_n1/uid_1001/job_12/step_batch/task_0\n0::/init.scope"
	const in2 = "0::/system.slice/n1_slurmstepd.scope/job_12/step_batch/user/task_0"
	for _, tt := range []struct {
		name, cgroup string
		files        map[string]string
		enough       bool
	}{
		{"v1, enough", in1, map[string]string{v1 + "limit_in_bytes": "1048576000", v1 + "usage_in_bytes": "20971520", v1 + "stat": "inactive_file 0"}, true},
		{"v1, little", in1, map[string]string{v1 + "limit_in_bytes": "104857600", v1 + "usage_in_bytes": "94371840", v1 + "stat": "inactive_file 1"}, false},
		{"v1, full of cache", in1, map[string]string{v1 + "limit_in_bytes": "104857600", v1 + "usage_in_bytes": "104857600", v1 + "stat": "inactive_file 0\ntotal_inactive_file 83886080"}, true},
		{"v1, no limit", in1, map[string]string{v1 + "limit_in_bytes": "9223372036854771712", v1 + "usage_in_bytes": "104857600", v1 + "stat": ""}, true},
		{"v2, enough", in2, map[string]string{v2 + "max": "107374182400", v2 + "current": "20971520", v2 + "stat": "anon 1"}, true},
		{"v2, little", in2, map[string]string{v2 + "max": "104857600", v2 + "current": "94371840", v2 + "stat": "anon 94371840\ninactive_file 4096"}, false},
		{"v2, full of cache", in2, map[string]string{v2 + "max": "104857600", v2 + "current": "104857600", v2 + "stat": "inactive_file 41943040\nactive_file 41943040"}, true},
		{"v2, no limit", in2, map[string]string{v2 + "max": "max", v2 + "current": "104857600", v2 + "stat": ""}, true},
		{"no cgroup", "", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, _ := jobSummary{program: "echo ran", cgroup: tt.cgroup, files: tt.files}.run(t)
			if (stdout == "ran\n") != tt.enough {
				t.Errorf("printed %q", stdout)
			}
		})
	}
}
