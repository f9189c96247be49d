package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// TestKernelOOMV1: the kernel tells of a job that nears its limit, and of a kill, with
// no reading in between.
func TestKernelOOMV1(t *testing.T) {
	k := kernelV1(t)
	j := start(t, Options{}, k.candidate)
	k.make(t)
	memory := k.candidate.Dirs["memory"]
	limit := filepath.Join(memory, "memory.limit_in_bytes")
	if err := os.WriteFile(limit, []byte("20971520"), 0o644); err != nil {
		t.Fatal(err)
	}
	through(t, j, Appeared)
	read(t, j) // the limit was set after the job appeared
	cmd := exec.Command(os.Args[0])
	var dirs []string
	for _, d := range k.dirs {
		dirs = append(dirs, filepath.Join(d, k.task))
	}
	cmd.Env = append(os.Environ(), burnEnv+"="+strings.Join(dirs, string(filepath.ListSeparator)))
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("32 MiB fit into 20: %s", out)
	}
	var told []rt.Event
	for deadline := time.Now().Add(20 * time.Second); len(told) == 0 && time.Now().Before(deadline); {
		through(t, j, Short)
		told = j.Notes()
	}
	text := ""
	for _, e := range told {
		text += e.Name + " " + e.Detail + "\n"
	}
	if !strings.Contains(text, "oom_kill killed=1 total=1 (1 in step 0, 1 in step 0 task 0) memory_limit_bytes=20971520") {
		t.Errorf("the ledger is told %q", text)
	}
	k.end(t, nil)
	through(t, j, Ended)
}

// TestPollV2: a job of v2 on its way to its limit is looked at between readings, and
// said to be short once.
func TestPollV2(t *testing.T) {
	s := newShareJob(t)
	at := func(name string) string { return filepath.Join(s.dir, name) }
	write(t, at("memory.max"), "1000\n")
	write(t, at("memory.current"), "800\n")
	s.j.reopen()
	s.look()
	read(t, s.j)
	s.j.schedule(time.Now())
	if s.j.deadline.IsZero() {
		t.Error("it does not look again by itself")
	}
	shorts := func() (n int) {
		for _, e := range s.j.step(nil) {
			if e == Short {
				n++
			}
		}
		return n
	}
	if n := shorts(); n != 0 {
		t.Errorf("short at 80 %%: %d", n)
	}
	write(t, at("memory.current"), "950\n")
	if n := shorts(); n != 1 {
		t.Errorf("told %d times", n)
	}
	read(t, s.j)
	if s.j.schedule(time.Now()); !s.j.deadline.IsZero() || shorts() != 0 {
		t.Error("it is still polled")
	}
}
