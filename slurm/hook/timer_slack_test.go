package hook

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

// A tracker has the slack when its Prolog ends. Only with CAP_SYS_NICE this process may read it.
func TestTrackerTimerSlack(t *testing.T) {
	h, _ := newHook(t, "echo ready >&3; exec sleep 1000")
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if got := slackOf(t, state.PID); maySetTimerSlack("/proc") && got != timerSlack {
		t.Errorf("a tracker has a timer slack of %s, want %s", got, timerSlack)
	}
}

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
	want := fmt.Sprintf(" %d ns", timerSlack.Nanoseconds())
	if err := h.Prolog(prolog12); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the tracker reports %v, want %s", err, want)
	}
}

// All threads of a process get the slack: here those of the test.
func TestTimerSlackOfThreads(t *testing.T) {
	self := os.Getpid()
	defer func() {
		for _, tid := range threadsOf(t) {
			writeSlack("/proc", tid, []byte("50000")) // Linux's default
		}
	}()
	// A thread that ends, or that another has created meanwhile, is in one of the lists only: wait for it.
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		setTimerSlack("/proc", self)
		without := ""
		for _, name := range threadsOf(t) {
			tid, err := strconv.Atoi(name)
			if err != nil {
				t.Fatal(err)
			}
			got := slackOf(t, tid)
			isOther := got != 0 && got != timerSlack
			if isOther && maySetTimerSlack("/proc") {
				without += fmt.Sprintf("thread %d has a timer slack of %s, want %s; ", tid, got, timerSlack)
			}
		}
		if without == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(without)
		}
	}
}

// threadsOf lists the threads of the test; the Go runtime has at least two.
func threadsOf(t *testing.T) (names []string) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, e := range threads {
		names = append(names, e.Name())
	}
	return names
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
