package cgroup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// A directory that an earlier attempt of the job left behind is used again: what that attempt has
// counted is not the job's.
func TestEarlierAttemptV2(t *testing.T) {
	for _, hasBegun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun=%t", hasBegun), func(t *testing.T) {
			root := t.TempDir()
			s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2"), proc: t.TempDir()}
			file := func(name, text string) { write(t, filepath.Join(s.dir, name), text) }
			s.total(2500)
			file("memory.peak", "9000\n")
			file("memory.events", "max 5\noom_kill 2\n")
			s.step("step_0", false, 2000, 300)
			s.step("step_1", false, 100, 50)
			for _, dir := range []string{"", "step_0/user", "step_0/slurm", "step_1/user", "step_1/slurm"} {
				file(filepath.Join(dir, "cgroup.procs"), "")
			}
			s.j = manualWith(t, Options{ProcRoot: s.proc, HasBegun: func() bool { return hasBegun }}, v2Candidate(root))
			if hasBegun { // all may be the job's
				s.want("after the start of the job", 2150, 350)
				return
			}
			got := read(t, s.j)
			if got.CPUUsage != some(0) || got.StepdCPUUsage != some(0) || got.MemPeak.Valid() || got.EventsOOMKill != some(0) || got.EventsMax != some(0) {
				t.Errorf("before the job: %+v", got)
			}
			if all, _ := steps(t, s.j); len(all) != 0 {
				t.Errorf("steps before the job: %+v", all)
			}
			notes := s.j.Notes()
			if len(notes) != 1 || notes[0].Name != "earlier attempt" || !strings.Contains(notes[0].Detail, "cpu_usec=2150 ") {
				t.Errorf("logged: %+v", notes)
			}

			s.total(2500 + 340)
			s.step("step_0", true, 2300, 340)
			file("step_0/user/cgroup.procs", "7\n")
			file("memory.events", "max 6\noom_kill 3\n")
			s.j.state.memoryChanged(filepath.Join(s.dir, memoryEvents))
			s.want("of the job", 300, 40)
			if got := read(t, s.j); got.MemPeak.Valid() || got.EventsOOMKill != some(1) {
				t.Errorf("of the job: peak %v, %v kills", got.MemPeak, got.EventsOOMKill)
			}
			all, _ := steps(t, s.j)
			isStep := len(all) == 1 && all[0].Step == "0"
			isOwn := isStep && slices.Contains([]rt.Opt[uint64]{some(340), some(300)}, all[0].CPUUsage)
			if !isOwn {
				t.Errorf("steps: %+v", all)
			}
			if notes := s.j.Notes(); len(notes) != 1 || !strings.Contains(notes[0].Detail, "killed=1 total=1") {
				t.Errorf("logged: %+v", notes)
			}
			file("memory.peak", "9001\n")
			if got := read(t, s.j); got.MemPeak != some(9001) {
				t.Errorf("peak %v, want 9001", got.MemPeak)
			}

			remove(t, s.dir)
			s.j.state.removed(s.dir)
			s.total(70)
			s.j.state.watch.Look()
			s.j.step(nil)
			if got := read(t, s.j); got.Phase != rt.JobPresent || got.CPUUsage != some(370) {
				t.Errorf("in a new directory: %+v", got)
			}
		})
	}
}

// A process shows that the job has begun.
func TestNoEarlierAttempt(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	write(t, dir+"/cpuacct.usage", "5000000\n")
	write(t, dir+"/cgroup.procs", "")
	write(t, dir+"/step_0/cgroup.procs", "7\n")
	j := manualWith(t, Options{ProcRoot: t.TempDir(), HasBegun: func() bool { return false }}, v1Candidate(root, "cpuacct"))
	if got := read(t, j); got.CPUUsage != some(5000) {
		t.Errorf("CPU time %v, want 5000", got.CPUUsage)
	}
}

// With v1 a directory can be left behind in one hierarchy.
func TestEarlierAttemptV1(t *testing.T) {
	root := t.TempDir()
	dir := func(c string) string { return filepath.Join(root, c, "slurm/uid_1000/job_12") }
	write(t, dir("cpuacct")+"/cpuacct.usage", "5000000\n")
	write(t, dir("cpuacct")+"/cgroup.procs", "")
	j := manualWith(t, Options{ProcRoot: t.TempDir(), HasBegun: func() bool { return false }}, v1Candidate(root, "cpuacct", "memory"))
	write(t, dir("memory")+"/memory.max_usage_in_bytes", "4096\n")
	write(t, dir("memory")+"/memory.failcnt", "1\n")
	write(t, dir("cpuacct")+"/cpuacct.usage", "5300000\n")
	j.state.watch.Look()
	j.step(nil)
	if got := read(t, j); got.CPUUsage != some(300) || got.MemPeak != some(4096) || got.EventsMax != some(1) {
		t.Errorf("of the job: %+v", got)
	}
	remove(t, filepath.Join(root, "cpuacct"))
	j.state.removed(dir("cpuacct"))
	write(t, dir("cpuacct")+"/cpuacct.usage", "70000\n")
	j.state.watch.Look()
	j.step(nil)
	if got := read(t, j); got.CPUUsage != some(370) {
		t.Errorf("in a new directory: CPU time %v, want 370", got.CPUUsage)
	}
}
