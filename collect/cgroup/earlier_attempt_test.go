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
			file("step_0/user/cgroup.procs", absentPIDs(7))
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
	write(t, dir+"/step_0/cgroup.procs", absentPIDs(7))
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

// If the counters of an earlier attempt cannot be left out for certain, the ledger says so.
func TestEarlierAttemptNotLeftOut(t *testing.T) {
	begun := func() bool { return true }
	before := func() bool { return false }
	for name, tt := range map[string]struct {
		hasBegun  func() bool
		isReused  bool
		processes string // in the directory of the step
		usage     string
		want      string // the status in the ledger
	}{
		"late tracker":             {begun, true, "", "5000000\n", "estimated"},
		"found later":              {nil, true, "", "5000000\n", "estimated"},
		"a process stays":          {before, true, absentPIDs(7), "5000000\n", "estimated"},
		"certain":                  {before, true, "", "5000000\n", "ok"},
		"first attempt":            {before, false, absentPIDs(7), "5000000\n", ""},
		"first attempt, late":      {begun, false, "", "5000000\n", ""},
		"nothing was counted":      {begun, true, absentPIDs(7), "0\n", ""},
		"first attempt, found now": {nil, false, absentPIDs(7), "5000000\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
			write(t, dir+"/cpuacct.usage", tt.usage)
			write(t, dir+"/cgroup.procs", "")
			write(t, dir+"/step_0/cgroup.procs", tt.processes)
			var inspected string
			opts := Options{ProcRoot: t.TempDir(), HasBegun: tt.hasBegun, MayBeReused: func(dir string) bool { inspected = dir; return tt.isReused }}
			j := manualWith(t, opts, v1Candidate(root, "cpuacct"))
			got, notes := "", j.Notes()
			for _, e := range notes {
				if e.Name == "earlier attempt" {
					got += e.Status
				}
			}
			if got != tt.want {
				t.Errorf("the ledger has %q, want %q: %+v", got, tt.want, notes)
			}
			if tt.want != "" && !strings.Contains(notes[0].Detail, "cpu_usec=5000 ") {
				t.Errorf("the ledger has %q", notes[0].Detail)
			}
			if inspected != dir {
				t.Errorf("MayBeReused got %q, want %q", inspected, dir)
			}
		})
	}
}

// A step that an earlier attempt left behind can be used again and end between two readings.
func TestEarlierStepWithoutLastReading(t *testing.T) {
	root := t.TempDir()
	s := &shareJob{t: t, dir: filepath.Join(root, "system.slice/slurmstepd.scope/job_2"), proc: t.TempDir()}
	s.total(2500)
	s.step("step_0", false, 2000, 300)
	for _, dir := range []string{"", "step_0/user", "step_0/slurm"} {
		write(t, filepath.Join(s.dir, dir, "cgroup.procs"), "")
	}
	s.j = manualWith(t, Options{ProcRoot: s.proc, HasBegun: func() bool { return false }}, v2Candidate(root))
	if n := len(s.j.Notes()); n != 1 {
		t.Fatalf("%d notes, want one of the earlier attempt", n)
	}
	s.end("step_0")
	notes := s.j.Notes()
	if len(notes) != 1 || notes[0].Status != "estimated" || !strings.Contains(notes[0].Detail, "the cgroup of step 0, which an earlier attempt of the job left behind,") {
		t.Errorf("logged: %+v", notes)
	}
	if all, _ := steps(t, s.j); len(all) != 0 {
		t.Errorf("steps: %+v", all)
	}
}

// With v1 the directory of a step can be removed and made again in one hierarchy: there it counts from zero.
func TestEarlierStepMadeAgainV1(t *testing.T) {
	root := t.TempDir()
	dir := func(c string) string { return filepath.Join(root, c, "slurm/uid_1000/job_12") }
	for _, c := range []string{"cpuacct", "memory"} {
		write(t, dir(c)+"/cgroup.procs", "")
		write(t, dir(c)+"/step_0/cgroup.procs", "")
	}
	for _, d := range []string{"", "/step_0"} {
		write(t, dir("cpuacct")+d+"/cpuacct.usage", "5000000\n")
		write(t, dir("memory")+d+"/memory.max_usage_in_bytes", "8192\n")
		write(t, dir("memory")+d+"/memory.usage_in_bytes", "0\n")
	}
	j := manualWith(t, Options{ProcRoot: t.TempDir(), HasBegun: func() bool { return false }}, v1Candidate(root, "cpuacct", "memory"))
	remove(t, dir("memory")+"/step_0")
	j.state.removed(dir("memory") + "/step_0")
	write(t, dir("memory")+"/step_0/memory.max_usage_in_bytes", "4096\n")
	write(t, dir("memory")+"/step_0/memory.usage_in_bytes", "4096\n")
	write(t, dir("memory")+"/step_0/cgroup.procs", "")
	write(t, dir("cpuacct")+"/step_0/cpuacct.usage", "5300000\n")
	j.state.watch.Scan(dir("memory"), dir("memory"))
	all, _ := steps(t, j)
	if len(all) != 1 || all[0].CPUUsage != some(300) || all[0].MemPeak != some(4096) {
		t.Errorf("steps: %+v, want CPU time 300 and a peak of 4096", all)
	}
}
