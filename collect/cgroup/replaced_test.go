package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
)

// The next step comes while the last one's directories are removed one after another, or
// one of them is left behind. The counts of the new directories are added to the old ones.
func TestReplacedInOneHierarchy(t *testing.T) {
	root := t.TempDir()
	lost := []notice{{Mask: unix.IN_Q_OVERFLOW}}
	j := manual(t, v1Candidate(root, "cpuacct", "memory"))
	dir := func(c string) string { return filepath.Join(root, c, "slurm/uid_1000/job_12") }
	write(t, dir("memory")+"/memory.max_usage_in_bytes", "4096\n")
	write(t, dir("memory")+"/memory.failcnt", "3\n")
	for round := uint64(1); round <= 3; round++ {
		write(t, dir("cpuacct")+"/cpuacct.usage", "1000000\n")
		j.step(lost)
		if got := read(t, j); got.CPUUsage != some(1000*round) || got.EventsMax != some(3) || j.state.tasks.Len() != 2 {
			t.Errorf("round %d: CPU time %v, limit hit %v times, %d hierarchies", round, got.CPUUsage, got.EventsMax, j.state.tasks.Len())
		}
		remove(t, filepath.Join(root, "cpuacct"))
		j.step(lost)
		if got := read(t, j); got.CPUUsage != some(1000*round) || j.state.tasks.Len() != 1 {
			t.Errorf("after round %d: CPU time %v, %d hierarchies", round, got.CPUUsage, j.state.tasks.Len())
		}
	}
	remove(t, dir("memory"))
	write(t, dir("memory")+"/memory.max_usage_in_bytes", "1024\n")
	write(t, dir("memory")+"/memory.failcnt", "2\n")
	write(t, dir("cpuacct")+"/cpuacct.usage", "1000000\n")
	j.step(lost)
	if got := read(t, j); got.CPUUsage != some(4000) || got.EventsMax != some(5) || got.MemPeak != some(4096) {
		t.Errorf("in the end: %+v", got)
	}
}

// Without watches a directory that is replaced between two looks is still distinguished
// from the one before it.
func TestReplacedWithoutWatches(t *testing.T) {
	root := t.TempDir()
	scope := filepath.Join(root, "system.slice/slurmstepd.scope")
	mkdir(t, scope)
	j := manual(t, v2Candidate(root))
	withoutInotify(t, j)
	prepare := func(staging, usage string) string {
		staging = filepath.Join(root, staging)
		write(t, staging+"/cpu.stat", fmt.Sprintf("usage_usec %s\n", usage))
		return staging
	}
	first, second := prepare("first", "100"), prepare("second", "700")
	for _, next := range []string{first, second} {
		remove(t, scope+"/job_2")
		if err := os.Rename(next, scope+"/job_2"); err != nil {
			t.Fatal(err)
		}
		j.state.isBlind = true
		j.step(nil)
		read(t, j)
	}
	if got := read(t, j); got.CPUUsage != some(800) {
		t.Errorf("CPU time %v, want that of both", got.CPUUsage)
	}
}

// withoutInotify makes j a Job without inotify.
func withoutInotify(tb testing.TB, j *Job) {
	tb.Helper()
	w := j.state.watch
	if err := w.notifier.Close(); err != nil {
		tb.Fatal(err)
	}
	var err error
	w.notifier, err = newPollingNotifier(unix.EMFILE)
	if err != nil {
		tb.Fatal(err)
	}
}

// If a user's inotify instances are used up, the job is still followed from its beginning
// to its end, and the reason is logged.
func TestWithoutInotify(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct"))
	withoutInotify(t, j)
	dir := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	j.state.watch.Look()
	write(t, dir+"/cpuacct.usage", "1000\n")
	write(t, dir+"/step_0/task_0/cgroup.procs", "")
	for _, want := range [][]collect.JobEvent{{collect.JobAppeared}, {collect.JobStepEnded}, {collect.JobEnded}} {
		if notices, err := j.state.watch.Wait(time.Now(), j.state.epoll.FD()); len(notices) > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("before %v: %v, %v", want, notices, err)
		}
		if got := j.step(nil); !slices.Equal(got, want) || j.state.deadline.IsZero() {
			t.Errorf("events %v, want %v; the next look is at %v", got, want, j.state.deadline)
		}
		if want[0] == collect.JobAppeared {
			write(t, dir+"/step_0/task_0/cgroup.procs", absentPIDs(7)) // without a notice
			j.step(nil)
			if all, _ := steps(t, j); len(all) != 2 || all[1].Task != some(0) {
				t.Errorf("steps and tasks %+v", all)
			}
			remove(t, dir+"/step_0")
		} else {
			remove(t, dir)
		}
	}
	if got := read(t, j); got.Phase != rt.JobGone || got.CPUUsage != some(1) {
		t.Errorf("gone: %+v", got)
	}
	notes := j.Notes()
	if len(notes) == 0 || notes[0].Name != "cgroup watch" || !strings.Contains(notes[0].Detail, "max_user_instances") {
		t.Errorf("logged: %+v", notes)
	}
}
