package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
)

// TestKernelOOMV1: the kernel reports a job that nears its limit, and a kill, with no
// reading in between.
func TestKernelOOMV1(t *testing.T) {
	k := kernelV1(t)
	j := start(t, Options{}, k.candidate)
	k.make(t)
	memory := k.candidate.Dirs["memory"]
	limit := filepath.Join(memory, "memory.limit_in_bytes")
	if err := os.WriteFile(limit, []byte("20971520"), 0o644); err != nil {
		t.Fatal(err)
	}
	through(t, j, collect.JobAppeared)
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
	var notes []rt.Event
	for len(notes) == 0 {
		through(t, j, collect.JobNearLimit)
		notes = j.Notes()
	}
	text := ""
	for _, e := range notes {
		text += e.Name + " " + e.Detail + "\n"
	}
	// The task is named if its process was seen in each hierarchy before the kernel killed it.
	text = strings.Replace(text, ", 1 in step 0 task 0", "", 1)
	if !strings.Contains(text, "oom_kill killed=1 total=1 (1 in step 0) memory_limit_bytes=20971520") {
		t.Errorf("logged: %q", text)
	}
	k.end(t, nil)
	through(t, j, collect.JobEnded)
}

// TestPollV2: the memory of a v2 job that approaches its limit is polled between readings,
// and JobNearLimit is reported once.
func TestPollV2(t *testing.T) {
	s := newShareJob(t)
	at := func(name string) string { return filepath.Join(s.dir, name) }
	write(t, at("memory.max"), "1000\n")
	write(t, at("memory.current"), "800\n")
	s.j.state.reopen()
	s.look()
	read(t, s.j)
	s.j.state.schedule(time.Now())
	if s.j.state.deadline.IsZero() {
		t.Error("it does not look again by itself")
	}
	shorts := func() (n int) {
		for _, e := range s.j.step(nil) {
			if e == collect.JobNearLimit {
				n++
			}
		}
		return n
	}
	if n := shorts(); n != 0 {
		t.Errorf("%d reports at 80 %%", n)
	}
	write(t, at("memory.current"), "950\n")
	if n := shorts(); n != 1 {
		t.Errorf("reported %d times", n)
	}
	read(t, s.j)
	if s.j.state.schedule(time.Now()); !s.j.state.deadline.IsZero() || shorts() != 0 {
		t.Error("it is still polled")
	}
}

// shorts counts how often JobNearLimit is reported by a call.
func (s *shareJob) shorts(what func()) (n int) {
	s.j.state.out = s.j.state.out[:0]
	what()
	for _, e := range s.j.state.out {
		if e == collect.JobNearLimit {
			n++
		}
	}
	return n
}

// TestPageCacheIsNoShortage: a job that fills its memory with page cache is not near its
// limit. A job that fills it with its processes or shared memory is, and so is a job that
// reached a step's limit.
func TestPageCacheIsNoShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShareJob(t)
		at := func(name string) string { return filepath.Join(s.dir, name) }
		for i, tt := range []struct {
			name             string
			current          int
			file, shmem      string
			want, afterwards int // at a hit, and at the watcher's next look of its own
		}{
			{"page cache", 990, "500", "0", 0, 0},
			{"shared memory", 990, "500", "500", 1, 0},
			{"processes", 990, "20", "0", 1, 0},
			{"another's limit", 300, "200", "0", 1, 0},
		} {
			write(t, at("memory.max"), "1000\n")
			write(t, at("memory.current"), fmt.Sprintln(tt.current))
			write(t, at("memory.stat"), "file "+tt.file+"\nshmem "+tt.shmem+"\n")
			write(t, at("memory.events"), fmt.Sprintf("max %d\noom_kill 0\n", i+1))
			s.j.state.reopen()
			s.look()
			read(t, s.j)
			time.Sleep(time.Second) // the rate limit
			if n := s.shorts(func() { s.j.state.memoryChanged(at("memory.events")) }); n != tt.want {
				t.Errorf("%s: near the limit %d times, want %d", tt.name, n, tt.want)
			}
			time.Sleep(time.Second)
			if n := s.shorts(s.j.state.checkMemory); n != tt.afterwards {
				t.Errorf("%s: %d times at the next look", tt.name, n)
			}
		}
	})
}

// TestKillAfterShortages: kills are still reported, once a second, after the largest
// number of reports that the job is near its limit.
func TestKillAfterShortages(t *testing.T) { synctest.Test(t, testKillAfterShortages) }

func testKillAfterShortages(t *testing.T) {
	const most = 100 // reports of one reason
	s := newShareJob(t)
	at := func(name string) string { return filepath.Join(s.dir, name) }
	happened := func(hits, kills int) int {
		write(t, at("memory.events"), fmt.Sprintf("max %d\noom_kill %d\n", hits, kills))
		return s.shorts(func() { s.j.state.memoryChanged(at("memory.events")) })
	}
	write(t, at("memory.events"), "max 0\noom_kill 0\n")
	s.j.state.reopen()
	s.look()
	read(t, s.j)
	near := 0
	for i := range 2 * most {
		time.Sleep(time.Second)
		near += happened(i+1, 0)
	}
	if near != most {
		t.Errorf("near its limit %d times, want %d", near, most)
	}
	if n := happened(2*most, 1); n != 1 {
		t.Errorf("the kill is reported %d times", n)
	}
	if n := happened(2*most, 2); n != 0 {
		t.Errorf("the next kill is reported %d times at once", n)
	}
	if n := len(s.j.Notes()); n != 2 {
		t.Errorf("%d of two kills are logged", n)
	}
}

// TestKillLongAfterTheSignal: on a busy machine the kernel signals that there is no memory
// long before it has chosen which process to kill. The watcher reads the count by itself,
// logs the kill and reports it.
func TestKillLongAfterTheSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		control := filepath.Join(root, "memory/slurm/uid_1000/job_12/memory.oom_control")
		write(t, control, "oom_kill 0\n")
		j := manual(t, v1Candidate(root, "memory"))
		read(t, j)
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 2 * time.Second} {
			j.state.ready(-1) // the eventfd of memory.oom_control, which copies of the files do not have
			signalled, logged := time.Now(), j.state.pressure.Kills()
			for range 100 {
				if slices.Contains(j.step(nil), collect.JobNearLimit) {
					t.Error("a kill is reported that did not happen")
				}
			}
			looks := 0
			for ; !j.state.deadline.IsZero(); looks++ {
				time.Sleep(time.Until(j.state.deadline))
				if time.Since(signalled) >= after {
					write(t, control, fmt.Sprintf("oom_kill %d\n", logged+1))
				}
				j.step(nil)
			}
			kills, out := j.state.pressure.Kills(), j.state.out
			if kills != logged+1 || looks > 15 || !slices.Contains(out, collect.JobNearLimit) {
				t.Errorf("%s after the signal: %d kills, want %d; %d looks, reported %v", after, kills, logged+1, looks, out)
			}
			if n := len(j.Notes()); n != 1 {
				t.Errorf("%s after the signal: logged %d times", after, n)
			}
			time.Sleep(time.Second) // the rate limit
		}
	})
}

// TestKillThatAnotherReadingFinds: a kill is reported whatever the cgroup was read for. For
// example, the watcher is late and the end of the killed process causes the reading.
func TestKillThatAnotherReadingFinds(t *testing.T) {
	root := t.TempDir()
	memory := filepath.Join(root, "memory/slurm/uid_1000/job_12")
	write(t, filepath.Join(memory, "memory.oom_control"), "oom_kill 1\n")
	j := manual(t, v1Candidate(root, "memory"))
	if slices.Contains(j.state.out, collect.JobNearLimit) {
		t.Error("a kill from before the job was found is reported")
	}
	write(t, filepath.Join(memory, "memory.oom_control"), "oom_kill 2\n")
	changed := []notice{{Dir: memory, Mask: unix.IN_MODIFY}}
	if out := j.step(changed); !slices.Contains(out, collect.JobNearLimit) {
		t.Errorf("reported %v", out)
	}
	if out := j.step(changed); len(out) != 0 {
		t.Errorf("reported again: %v", out)
	}
}

// TestShortWaitsForNoReceiver: the watcher goes on without a receiver.
func TestShortWaitsForNoReceiver(t *testing.T) {
	j := manual(t, v2Candidate(t.TempDir()))
	for range 2 * cap(j.events) {
		if !j.send(collect.JobNearLimit) { // it does not return if it waits
			t.Fatalf("not sent with %d events in the queue", len(j.events))
		}
	}
}

// TestNoNearLimit: with NoNearLimit the memory is not checked, and kills are logged.
func TestNoNearLimit(t *testing.T) {
	s := newShareJob(t)
	s.j = manualWith(t, Options{ProcRoot: s.proc, NoNearLimit: true}, v2Candidate(filepath.Dir(filepath.Dir(filepath.Dir(s.dir)))))
	at := func(name string) string { return filepath.Join(s.dir, name) }
	write(t, at("memory.max"), "1000\n")
	write(t, at("memory.current"), "800\n")
	write(t, at("memory.events"), "max 0\noom_kill 0\n")
	s.j.state.reopen()
	s.look()
	read(t, s.j)
	if s.j.state.schedule(time.Now()); !s.j.state.deadline.IsZero() {
		t.Error("its memory is polled")
	}
	write(t, at("memory.events"), "max 1\noom_kill 1\n")
	if n := s.shorts(func() { s.j.state.memoryChanged(at("memory.events")) }); n != 0 || len(s.j.Notes()) != 1 {
		t.Errorf("%d reports, or the kill is not logged", n)
	}
}
