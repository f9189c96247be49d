package perf

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// A job that comes back has a cgroup of its own.
func TestComesBack(t *testing.T) {
	dir := newCgroup(t)
	opened := 0
	s := New(Options{Sys: "/sys", Core: "task-clock", Cgroup: func() (string, bool) { opened++; return dir, true }})
	defer s.Close()
	for i, phase := range []rt.JobPhase{rt.JobPending, rt.JobPresent, rt.JobGone, rt.JobGone, rt.JobPresent, rt.JobPresent} {
		if _, err := s.readAt(t, time.Hour+time.Duration(i)*time.Second, phase); err != nil {
			t.Fatal(err)
		}
	}
	if opened != 2 {
		t.Errorf("opened %d times", opened)
	}
}

// A cgroup that was replaced between two readings is opened again, too.
func TestComesBackAtOnce(t *testing.T) {
	dir := newCgroup(t)
	s := New(Options{Sys: "/sys", Core: "task-clock", Cgroup: func() (string, bool) { return dir, true }})
	defer s.Close()
	read := func() {
		snap := rt.Snapshot{Boot: int64(time.Hour), Wall: 1, Reason: rt.ReasonAppeared}
		snap.Job.Phase = rt.JobPresent
		if err := s.Read(&snap); err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	seen := map[uint64]bool{}
	for range 3 {
		read()
		before := s.cgroup
		if read(); s.cgroup != before {
			t.Error("opened again without a reason")
		}
		if err := unix.Stat(dir, &st); err != nil || st.Ino != s.cgroup || seen[s.cgroup] {
			t.Errorf("the events are of cgroup %d, %s is %d: %v", s.cgroup, dir, st.Ino, err)
		}
		seen[s.cgroup] = true
		if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}
