package tracker

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
)

// A job without a cgroup has trees: the use of ended steps stays, and the ledger has one event. A
// job with a cgroup has no trees.
func TestProcessTrees(t *testing.T) {
	// Each is a slurmstepd to us: it works for a moment, prints a line and waits.
	start := func() (pid int, end func()) {
		cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo; read x")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid, func() { in.Close(); _ = cmd.Wait() } // its status says that the pipe was closed
	}
	var stepds []int
	var noted []rt.Event
	fs := proc.NewFS("/proc", "/sys")
	all := proc.NewProcesses(fs)
	defer all.Close()
	j := NewProcessTrees(fs, all, func([]int) []int { return stepds }, func(e rt.Event) { noted = append(noted, e) })
	defer j.Close()
	boot := int64(time.Hour)
	read := func(why rt.Reason, phase rt.JobPhase) rt.TreeReading {
		s := rt.Snapshot{Reason: why, Boot: boot, Job: rt.JobReading{Phase: phase}}
		if err := j.Read(&s); err != nil {
			t.Fatal(err)
		}
		return s.Tree
	}
	if r := read(rt.ReasonTick, rt.JobPending); r.CPUUserTicks.Valid() || len(noted) != 0 {
		t.Errorf("of no step: %+v, %v", r, noted)
	}
	pid, end := start()
	stepds = []int{pid}
	for _, r := range []rt.TreeReading{read(rt.ReasonFirst, rt.JobPending), read(rt.ReasonTick, rt.JobPresent)} {
		if r.CPUUserTicks.Valid() {
			t.Errorf("read at the Prolog, or of a job with a cgroup: %+v", r)
		}
	}
	first := read(rt.ReasonTick, rt.JobPending)
	if n, ok := first.CPUUserTicks.Get(); !ok || n == 0 || first.RSS.Or(0) == 0 || len(noted) != 0 {
		t.Errorf("one step: %+v, %v", first, noted)
	}
	if pids := j.PIDs(nil); len(pids) != 0 {
		t.Errorf("processes %v of a job whose cgroup may come yet", pids)
	}
	boot += cgroupWithin
	if read(rt.ReasonTick, rt.JobPending); len(noted) != 1 {
		t.Errorf("a job that has no cgroup for so long: %v", noted)
	}
	if pids := j.PIDs([]int{os.Getpid()}); !slices.Equal(pids, []int{os.Getpid(), pid}) {
		t.Errorf("processes %v, want %d after our own", pids, pid)
	}
	end()
	stepds = nil
	if r := read(rt.ReasonTick, rt.JobPending); r.CPUUserTicks != first.CPUUserTicks || r.RSS != rt.Some[uint64](0) {
		t.Errorf("after its end: %+v, it had used %+v", r, first)
	}
	pid, end = start()
	defer end()
	stepds = []int{pid}
	if r := read(rt.ReasonTick, rt.JobPending); r.CPUUserTicks.Or(0) <= first.CPUUserTicks.Or(0) || len(noted) != 1 {
		t.Errorf("with a second step: %+v, %v", r, noted)
	}
	select {
	case <-j.met:
	default:
		t.Error("met is not closed")
	}
}

// A forked task that the search takes for a slurmstepd is counted once: in the tree of its parent.
// The search may find the task before the parent, with the parent, or later.
func TestTaskTakenForSlurmstepd(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo $$; read x'; :")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); _ = cmd.Wait() }() // its status says that the pipe was closed
	var task int
	if _, err := fmt.Fscan(out, &task); err != nil {
		t.Fatal(err)
	}
	fs, stepd := proc.NewFS("/proc", "/sys"), cmd.Process.Pid
	for name, searches := range map[string][][]int{
		"before": {{task}, {task, stepd}}, "with": {{stepd, task}, {task}}, "after": {{stepd}, {stepd, task}},
	} {
		all := proc.NewProcesses(fs)
		var found []int
		j := NewProcessTrees(fs, all, func([]int) []int { return found }, func(rt.Event) {})
		var last rt.TreeReading
		for _, found = range searches {
			s := rt.Snapshot{Reason: rt.ReasonTick, Boot: int64(time.Hour), Job: rt.JobReading{Phase: rt.JobPending}}
			if err := j.Read(&s); err != nil {
				t.Fatal(err)
			}
			last = s.Tree
		}
		one := proc.NewTree(fs, stepd)
		var want rt.Snapshot
		if err := one.Read(&want); err != nil {
			t.Fatal(err)
		}
		if last != want.Tree {
			t.Errorf("%s: %+v, want the tree of the parent: %+v", name, last, want.Tree)
		}
		one.Close()
		j.Close()
		all.Close()
	}
}
