package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/layout"
)

// Events that the kernel dropped are replaced by a comparison with what exists.
func TestOverflow(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct", "memory"))
	lost := []notice{{Mask: unix.IN_Q_OVERFLOW}}
	unpack(t, "v1-job.txtar", root)
	if got := j.step(lost); !slices.Equal(got, []collect.JobEvent{collect.JobAppeared}) {
		t.Fatalf("events %v", got)
	}
	job := filepath.Join(root, "cpuacct/slurm/uid_1000/job_12")
	mkdir(t, job+"/step_1/task_0")
	if got := j.step(lost); len(got) != 0 {
		t.Fatalf("events %v", got)
	}
	if !j.state.watch.IsKnown(job + "/step_1/task_0") {
		t.Error("the new step's task is not known")
	}
	remove(t, job+"/step_1")
	if got := j.step(lost); !slices.Equal(got, []collect.JobEvent{collect.JobStepEnded}) {
		t.Fatalf("events %v", got)
	}
	remove(t, filepath.Join(root, "cpuacct/slurm"))
	remove(t, filepath.Join(root, "memory"))
	if got := j.step(lost); !slices.Contains(got, collect.JobEnded) {
		t.Fatalf("events %v", got)
	}
	if got := read(t, j); got.Phase != rt.JobGone || got.CPUUsage != some(3348302) || got.EventsOOMKill != some(1) {
		t.Errorf("gone: %+v", got)
	}
}

// Whatever is made or removed while the watcher looks: its events are in order, and in the
// end it has found what exists.
func TestRaces(t *testing.T) {
	root := t.TempDir()
	j := start(t, Options{Settle: time.Microsecond}, v1Candidate(root, "cpuacct"), v2Candidate(root))
	staging := filepath.Join(root, "staging")
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		uid := filepath.Join(root, "cpuacct/slurm/uid_1000")
		for range 3 { // may be seen or not
			mkdir(t, filepath.Join(uid, "job_12/step_0/task_0"))
			remove(t, filepath.Join(root, []string{"cpuacct", "cpuacct/slurm", "cpuacct/slurm/uid_1000/job_12"}[round%3]))
		}
		mkdir(t, uid)
		write(t, staging+"/cgroup.procs", strings.Repeat(absentPIDs(7), round+1))
		if err := os.Rename(staging, uid+"/job_12"); err != nil {
			t.Fatal(err)
		}
		var events []collect.JobEvent
		next := func() { events = append(events, <-j.Events()) }
		for read(t, j).Pids != some(uint64(round+1)) {
			next()
		}
		remove(t, filepath.Join(root, "cpuacct"))
		for len(events) == 0 || events[len(events)-1] != collect.JobEnded || read(t, j).Phase != rt.JobGone || len(j.Events()) > 0 {
			next()
		}
		checkOrder(t, events)
	}
	if err := j.Err(); err != nil {
		t.Error(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.state.watch.byPath) > 8 {
		t.Errorf("%d watches are left over: %v", len(j.state.watch.byPath), j.state.watch.byPath)
	}
}

// checkOrder fails unless what appears also ends, and nothing else does.
func checkOrder(t *testing.T, events []collect.JobEvent) {
	t.Helper()
	there := false
	for _, e := range events {
		if there == (e == collect.JobAppeared) {
			t.Fatalf("out of order: %v", events)
		}
		there = e != collect.JobEnded
	}
}

// Without a receiver Close still ends the watcher, and no file is left open.
func TestClose(t *testing.T) {
	root := t.TempDir()
	unpack(t, "v1-job.txtar", root)
	before := descriptors(t)
	j, err := NewJob([]cgroupfs.Candidate{v1Candidate(root, cgroupfs.ControllersV1[:]...)}, layout.Slurm{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	var s rt.Snapshot
	if err := j.Read(&s); err != nil {
		t.Errorf("read after Close: %v", err)
	}
}

func descriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// If a watch cannot be set, that is reported, and the job is polled.
func TestWithoutWatches(t *testing.T) {
	root := t.TempDir()
	j := manual(t, v1Candidate(root, "cpuacct"))
	j.state.watchFailed(errors.New("inotify_add_watch: no space left on device"), true)
	write(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12/cpuacct.usage"), "1000\n")
	if got := j.step(nil); !slices.Equal(got, []collect.JobEvent{collect.JobAppeared}) || j.state.deadline.IsZero() || j.Err() == nil {
		t.Errorf("events %v, deadline %v, error %v", got, j.state.deadline, j.Err())
	}
	remove(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12"))
	if got := j.step(nil); !slices.Equal(got, []collect.JobEvent{collect.JobEnded}) {
		t.Errorf("events %v", got)
	}
}

// A panic in a reading ends the watching, and releases the lock.
func TestPanicInAReading(t *testing.T) {
	root := t.TempDir()
	mkdir(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12"))
	j := start(t, Options{}, v1Candidate(root, "cpuacct"))
	expect(t, j, collect.JobAppeared)
	j.mu.Lock()
	files := j.state.files
	j.state.files = nil
	j.mu.Unlock()
	done := make(chan error)
	go func() {
		defer func() {
			_ = recover() // the recorder's does so
			j.mu.Lock()
			j.state.files = files
			j.mu.Unlock()
			done <- j.Err()
		}()
		var s rt.Snapshot
		_ = j.Read(&s)
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("error %v", err)
	}
}

// A panic in the reading of one step or task does so, too, and the job is still read.
func TestPanicInAGroupReading(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12/cpuacct.usage"), "1000\n")
	j := start(t, Options{}, v1Candidate(root, "cpuacct"))
	expect(t, j, collect.JobAppeared)
	done := make(chan error)
	go func() {
		defer func() {
			_ = recover() // the recorder's does so
			done <- j.Err()
		}()
		var s rt.Snapshot
		j.request(func() { j.readGroup(new(group), &s) }) // it has no files
	}()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("error %v", err)
	}
	if got := read(t, j); got.CPUUsage != some(1) {
		t.Errorf("after the panic: %+v", got)
	}
}

// A reading runs on the thread of its caller if Raise gives it the priority, otherwise on the watcher's.
func TestRaise(t *testing.T) {
	for _, isAllowed := range []bool{true, false} {
		t.Run(fmt.Sprint(isAllowed), func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "cpuacct/slurm/uid_1000/job_12/cpuacct.usage"), "1000\n")
			raised, restored := 0, 0
			raise := func() (func(), bool) {
				raised++
				return func() { restored++ }, isAllowed
			}
			j := start(t, Options{Raise: raise}, v1Candidate(root, "cpuacct"))
			expect(t, j, collect.JobAppeared)
			if got := read(t, j); got.CPUUsage != some(1) {
				t.Errorf("the reading is %+v", got)
			}
			thread := make(chan int, 1)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			j.request(func() { thread <- unix.Gettid() })
			if own := <-thread == unix.Gettid(); own != isAllowed {
				t.Errorf("it runs on the thread of its caller: %t", own)
			}
			want := 0
			if isAllowed {
				want = raised
			}
			if raised < 2 || restored != want {
				t.Errorf("raised %d times, restored %d times", raised, restored)
			}
		})
	}
}
