package launch

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tracker inherits the slack from a Prolog without CAP_SYS_NICE.
func TestInheritedTimerSlack(t *testing.T) {
	runtime.LockOSThread() // without the capability, this thread ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	sets[0].Effective &^= 1 << unix.CAP_SYS_NICE
	err = errors.Join(err, unix.Capset(&header, &sets[0]))
	if err != nil {
		t.Fatal(err)
	}
	h, _ := newHook(t, "")
	fake := "#!/usr/bin/awk -f\nBEGIN { getline < \"/proc/self/timerslack_ns\"; print \"error: \" $0 \" ns\" >\"/dev/fd/3\" }\n"
	if err := os.WriteFile(h.Tracker, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(" %d ns", inheritedSlack.Nanoseconds())
	if err := h.Prolog(prolog12); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the tracker reports %v, want %s", err, want)
	}
}

// The second thread of a process gets the slack and the others do not: here those of this test. Only with CAP_SYS_NICE
// this process may set and read it.
func TestTimerSlack(t *testing.T) {
	dir, err := os.Open("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	threads, err := dir.Readdirnames(0) // in the order of their start
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	defer writeSlack("/proc", threads[1], []byte("50000")) // Linux's default
	setTimerSlack("/proc", os.Getpid())
	if !maySetTimerSlack("/proc") {
		return
	}
	for i, name := range threads {
		tid, err := strconv.Atoi(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := slackOf(t, tid); (got == monitorSlack) != (i == 1) {
			t.Errorf("thread %d of %d has a timer slack of %s, and the second should have %s", i+1, len(threads), got, monitorSlack)
		}
	}
	setTimerSlack("/proc", 1<<30) // a process that has ended
}

// slackOf returns the timer slack of a thread, 0 if this process may not read it or the thread has ended.
func slackOf(t *testing.T, tid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid))
	isUnknown := errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	if isUnknown {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(text)) + "ns")
	if err != nil {
		t.Fatal(err)
	}
	return d
}
