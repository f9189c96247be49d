package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/spool"
)

// When the tracked task ends, the ledger has the number of tasks that still run.
func TestOtherTasksAreNoted(t *testing.T) {
	t.Parallel()
	const tail = " of step 3 on this node had not ended when the tracked one did: what was used after that is not in the record"
	for _, tt := range []struct {
		name, step, tasks, cgroup string
		others                    []string // the numbers of tasks that have a process
		want                      string
	}{
		{"equal", "3", "3(x2)", "cg", []string{"0", "0"}, ""},
		{"unequal", "3", "7,3", "cg", []string{"0", "2"}, "unseen 1 other task" + tail},
		{"two", "3", "7,3", "cg", []string{"1", "2"}, "unseen 2 other tasks" + tail},
		{"tree", "3", "7,3", "none", nil, "absent 2 other tasks of step 3 on this node not in the record: no cgroup was found that has them"},
		{"alone", "3", "7,1", "none", nil, ""},
		{"batch", "4294967291", "7,3", "cg", []string{"1", "2"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			asTask := func(cmd *exec.Cmd, number string) *exec.Cmd {
				cmd.Env = append(cmd.Env, "SLURM_LOCALID="+number, "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE="+tt.tasks)
				return cmd
			}
			var pids []int
			for _, number := range tt.others {
				pids = append(pids, other(t, asTask(inStep(t, dir, tt.step), number)))
			}
			fakeStep(t, filepath.Join(dir, "cg"), tt.step, pids)
			cmd := asTask(inStep(t, dir, tt.step, "--path.cgroupfs", tt.cgroup, "--spool", "runs", "sh", "-c", "exit 4"), "0")
			_ = cmd.Run() // its status is looked at below
			if cmd.ProcessState.ExitCode() != 4 || fmt.Sprint(cmd.Stderr) != "" {
				t.Errorf("%s, said %q", cmd.ProcessState, cmd.Stderr)
			}
			if got := notesOfTasks(t, filepath.Join(dir, "runs")); got != tt.want {
				t.Errorf("the ledger has %q, want %q", got, tt.want)
			}
		})
	}
}

// other starts a process with the environment of cmd that runs until the test ends.
func other(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	cmd.Path, cmd.Args, cmd.Stdout = "/bin/sh", []string{"sh", "-c", "echo; read line"}, nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // read has failed
	})
	if _, err := out.Read(make([]byte, 1)); err != nil { // its environment is its own
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// fakeStep makes a v2 hierarchy with a step of job 77 that has the processes.
func fakeStep(t *testing.T, root, step string, pids []int) {
	t.Helper()
	name := step
	if name == "4294967291" {
		name = "batch"
	}
	job := filepath.Join(root, "system.slice", "slurmstepd.scope", "job_77")
	task := filepath.Join(job, "step_"+name, "user", "task_0")
	if err := os.MkdirAll(task, 0o700); err != nil {
		t.Fatal(err)
	}
	var procs bytes.Buffer
	for _, pid := range pids {
		fmt.Fprintln(&procs, pid)
	}
	for path, text := range map[string]string{
		filepath.Join(root, "cgroup.controllers"):                    "cpu memory pids\n",
		filepath.Join(filepath.Dir(root), "none/cgroup.controllers"): "cpu memory pids\n",
		filepath.Join(job, "cgroup.events"):                          "populated 1\n",
		filepath.Join(job, "cgroup.procs"):                           "",
		filepath.Join(job, "cpu.stat"):                               "usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\n",
		filepath.Join(task, "cgroup.procs"):                          procs.String(),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// notesOfTasks is what the ledger of the one run says of tasks.
func notesOfTasks(t *testing.T, dir string) string {
	t.Helper()
	runs := runsIn(t, dir)
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	r, err := spool.Open(runs[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, e := range events {
		if e.Kind == "job" && e.Name == "tasks" {
			notes = append(notes, e.Status+" "+e.Detail)
		}
	}
	return strings.Join(notes, "; ")
}
