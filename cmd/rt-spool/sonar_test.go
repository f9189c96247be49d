package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/format/sonar"
)

// TestSonarPsLoad runs a known load, which stops itself so that its figures stay the same. It
// compares the record of sonar ps with /proc and ps(1), within 2 %.
func TestSonarPsLoad(t *testing.T) {
	t.Parallel()
	const memory = 48 << 20
	child := exec.Command(program(t))
	child.Env = append(os.Environ(), loadVariable+"=1", "SLURM_JOB_ID=4711") // any user can set this
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill() // it never ends by itself
		_ = child.Wait()
	})
	pid := child.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("process %d did not stop itself: %v, %v", pid, status, err)
	}
	for _, rollup := range []bool{false, true} {
		most := shareOf(t, pid) // it falls while the process stands still
		args := []string{"rt-spool", "sonar", "ps", "--json", "--min-cpu-time", "1"}
		if rollup {
			args = append(args, "--rollup")
		}
		var out, errs bytes.Buffer
		if status := run(context.Background(), args, &out, &errs); status != 0 {
			t.Fatalf("%v ended with %d: %s", args, status, errs.String())
		}
		s := sampleOf(t, out.Bytes(), pid)
		if least := shareOf(t, pid); s.CPUPct > 1.02*most || s.CPUPct < 0.98*least {
			t.Errorf("cpu%% is %g, not within 2 %% of %g to %g", s.CPUPct, least, most)
		}
		compareWithProc(t, pid, s, uint64(pid), memory) // outside Slurm the job is the process group
		compareWithPs(t, pid, s)
	}
}

func sampleOf(t *testing.T, out []byte, pid int) *sonar.Sample {
	t.Helper()
	for rec, err := range sonar.Decode(bytes.NewReader(out)) {
		s, ok := rec.(*sonar.Sample)
		if err != nil || !ok {
			t.Fatalf("%v: %T", err, rec)
		}
		if s.PID == uint64(pid) {
			return s
		}
	}
	t.Fatalf("no record of process %d in %s", pid, out)
	return nil
}

// near fails the test if got is neither within 2 % of want nor within unit.
func near(t *testing.T, what string, got, want, unit float64) {
	t.Helper()
	if math.Abs(got-want) > max(0.02*want, unit) {
		t.Errorf("%s is %g, not within 2 %% of %g", what, got, want)
	}
}

func compareWithProc(t *testing.T, pid int, s *sonar.Sample, job, memory uint64) {
	t.Helper()
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	if s.User != self.Username || s.PPID != uint64(os.Getpid()) || s.Cmd != strings.TrimSpace(string(comm)) || s.Job != job {
		t.Errorf("%+v; want user %s, parent %d, command %q, job %d", s, self.Username, os.Getpid(), comm, job)
	}
	near(t, "cputime_sec and /proc", float64(s.CPUTimeSec), math.Round(float64(ticksOf(t, pid))/100), 0)
	near(t, "cpukib", float64(s.CPUKiB), statusOf(t, pid, "VmData")+statusOf(t, pid, "VmStk"), 0)
	near(t, "rssanonkib", float64(s.RSSAnonKiB), statusOf(t, pid, "RssAnon"), 0)
	if s.RSSAnonKiB < memory>>10 {
		t.Errorf("rssanonkib is %d of a process that touched %d KiB", s.RSSAnonKiB, memory>>10)
	}
}

// compareWithPs needs procps, which make test installs; compareWithProc covers the same
// figures where it is missing.
func compareWithPs(t *testing.T, pid int, s *sonar.Sample) {
	t.Helper()
	if _, err := exec.LookPath("ps"); err != nil {
		t.Logf("not compared with ps(1): %v; install procps", err)
		return
	}
	out, err := exec.Command("ps", "-o", "user:32=,ppid=,%cpu=,cputimes=,etimes=,comm=", "-p", strconv.Itoa(pid)).Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 6 {
		t.Fatalf("ps: %v: %q", err, out)
	}
	if s.User != words[0] || fmt.Sprint(s.PPID) != words[1] || s.Cmd != words[5] {
		t.Errorf("%+v; ps reports %q", s, words)
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	// ps divides by whole seconds, but the first and the last are not whole.
	near(t, "cpu% and ps", s.CPUPct, number(words[2]), number(words[2])*(0.02+1/number(words[4])))
	near(t, "cputime_sec and ps", float64(s.CPUTimeSec), number(words[3]), 1) // ps cuts the second, sonar rounds it
}

// loadVariable makes the test binary a load, see init.
const loadVariable = "RT_TEST_LOAD"

func init() {
	if os.Getenv(loadVariable) == "" {
		return
	}
	held := make([]byte, 48<<20)
	var used unix.Rusage
	for i := 0; used.Utime.Nano()+used.Stime.Nano() < 1.1e9; i++ {
		held[i*4096%len(held)]++
		if i%100_000 == 0 && unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
			return
		}
	}
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	select {} // until it is killed
}

// ticksOf is utime and stime of a process, in USER_HZ.
func ticksOf(t *testing.T, pid int) uint64 {
	t.Helper()
	words := statOf(t, pid)
	user, err1 := strconv.ParseUint(words[11], 10, 64)
	system, err2 := strconv.ParseUint(words[12], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}

// shareOf is what a process has used of a core over its life, in percent.
func shareOf(t *testing.T, pid int) float64 {
	t.Helper()
	start, err1 := strconv.ParseFloat(statOf(t, pid)[19], 64)
	text, err2 := os.ReadFile("/proc/uptime")
	var up float64
	_, err3 := fmt.Sscan(string(text), &up)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return float64(ticksOf(t, pid)) / (up - start/100)
}

// statOf are the fields of /proc/<pid>/stat behind the command's name.
func statOf(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// statusOf is a line of /proc/<pid>/status in KiB.
func statusOf(t *testing.T, pid int, key string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == key+":" {
			v, err := strconv.ParseFloat(words[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s of process %d", key, pid)
	return 0
}
