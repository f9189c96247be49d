package hook

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A tracker has the slack when its Prolog ends, if the Prolog may set it.
func TestTrackerTimerSlack(t *testing.T) {
	h, _ := newHook(t, "echo ready >&3; exec sleep 1000")
	if err := h.Prolog(prolog12); err != nil {
		t.Fatal(err)
	}
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if got := slackOf(t, state.PID); mayNice(t) && got != timerSlack {
		t.Errorf("a tracker has a timer slack of %s, want %s", got, timerSlack)
	}
}

// All threads of a process get the slack.
func TestTimerSlackOfThreads(t *testing.T) {
	if os.Getenv("RT_WAITS") != "" { // the process
		fmt.Println("waits")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTimerSlackOfThreads$")
	cmd.Env = append(os.Environ(), "RT_WAITS=1")
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	err := errors.Join(err1, err2, cmd.Start())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stdin.Close(), cmd.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "waits\n" {
		t.Fatalf("the process prints %q, %v", line, err)
	}
	setTimerSlack("/proc", cmd.Process.Pid)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, e := range threads {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := slackOf(t, tid); mayNice(t) && got != timerSlack {
			t.Errorf("thread %d has a timer slack of %s, want %s", tid, got, timerSlack)
		}
	}
}

// slackOf returns the timer slack of a thread, 0 if this process may not read it.
func slackOf(t *testing.T, tid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid))
	if errors.Is(err, os.ErrPermission) {
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

// mayNice reports whether this process has CAP_SYS_NICE.
func mayNice(t *testing.T) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		t.Fatal(err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}
