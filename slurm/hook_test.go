package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/resource-tracker/rt"
)

// The bodies of fake trackers: shell scripts in which %s is the test's directory.
const (
	// fakeGood tells what it was given, is ready, and at SIGTERM keeps a copy of the exit.
	fakeGood = `trap 'cp %[1]s/state/*.exit %[1]s/seen.exit; exit 0' TERM
cat >%[1]s/run.json
echo $$ >>%[1]s/started
echo "ready" >&3
exec 3>&-
while :; do sleep 0.02; done`
	// fakeCurious writes down how it was started.
	fakeCurious = `cat >%[1]s/run.json
echo "$@" >%[1]s/args
env >%[1]s/env
pwd >%[1]s/cwd
cat /proc/self/status >%[1]s/status
cat /proc/$$/stat >%[1]s/stat
echo "ready" >&3
while :; do sleep 0.02; done`
	fakeStubborn = `trap '' TERM
echo "ready" >&3
exec 3>&-
while :; do sleep 0.02; done`
	fakeHangs = `while :; do sleep 0.02; done`
	fakeError = `echo "started" >>%[1]s/started
echo "error: cannot open the spool %[1]s/spool: no such directory; make it" >&3
exit 1`
	fakeDies = `exit 9`
)

// newHook makes a hook around a fake tracker.
func newHook(t *testing.T, body string) (*Hook, string) {
	t.Helper()
	dir := t.TempDir()
	h := &Hook{
		Tracker: filepath.Join(dir, "rt-tracker"), SpoolDir: "/var/spool/rt", State: State{filepath.Join(dir, "state")},
		Interval: 10 * time.Second, ReadyTimeout: 20 * time.Second, StopTimeout: 20 * time.Second,
		DisableFile: filepath.Join(dir, "disabled"), Failures: 3, Reset: time.Hour, ProcRoot: "/proc", Hostname: "host1",
		GroupName: func(gid uint64) string { return fmt.Sprint("group", gid) },
	}
	setTracker(t, h, body)
	t.Cleanup(func() { killTrackers(t, h) })
	return h, dir
}

func setTracker(t *testing.T, h *Hook, body string) {
	t.Helper()
	if strings.Contains(body, "%[1]s") {
		body = fmt.Sprintf(body, filepath.Dir(h.Tracker))
	}
	// A file that is open for writing anywhere cannot be executed: replace, do not rewrite.
	if err := os.RemoveAll(h.Tracker); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Tracker, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// killTrackers ends what a test has left behind: the sessions of its notes.
func killTrackers(t *testing.T, h *Hook) {
	notes, err := filepath.Glob(filepath.Join(h.State.Dir, "*.json"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range notes {
		var n Note
		if readJSON(path, &n) == nil && n.PID > 1 && alive("/proc", n.PID, n.PIDStart) {
			if err := syscall.Kill(-n.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
}

func jobEnv(context, job string, attempt int) Env {
	return Env{
		"SLURM_SCRIPT_CONTEXT": context, "SLURM_JOB_ID": job, "SLURMD_NODENAME": "n1", "SLURM_CLUSTER_NAME": "lab",
		"SLURM_JOB_GID": "1001", "SLURM_JOB_RESTART_COUNT": fmt.Sprint(attempt), "SLURM_JOB_EXIT_CODE2": "7:0",
		"SENTINEL_API_TOKEN": "secret",
	}
}

var prolog12, epilog12 = jobEnv("prolog_slurmd", "12", 0), jobEnv("epilog_slurmd", "12", 1) // Slurm counts up before the Epilog

func read(t *testing.T, elements ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// stateFiles are the names in the state directory.
func stateFiles(t *testing.T, h *Hook) []string {
	t.Helper()
	entries, err := os.ReadDir(h.State.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestPrologEpilog(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := h.Prolog(prolog12, began); err != nil {
		t.Fatal(err)
	}
	var run rt.Run
	if err := json.Unmarshal([]byte(read(t, dir, "run.json")), &run); err != nil {
		t.Fatal(err)
	}
	boot := strings.TrimSpace(read(t, "/proc/sys/kernel/random/boot_id"))
	if run.JobID != rt.Some[uint64](12) || run.Node != "n1" || run.Group != "group1001" || run.Meta.Team != "group1001" || run.BootID != boot || run.Interval != 10 || !run.Start.Equal(began) {
		t.Errorf("the tracker got the run %+v", run)
	}
	note, err := h.State.ReadNote(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if note.RunID != run.FileStem() || note.Spool != "/var/spool/rt/"+run.FileStem()+".db" || !note.Started.Equal(began) || !alive("/proc", note.PID, note.PIDStart) {
		t.Errorf("note %+v", note)
	}
	if info, err := os.Stat(h.State.path(12, "n1", "json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("note's mode: %v, %v", info.Mode(), err)
	}
	// The Prolog once more: nothing is started.
	if err := h.Prolog(prolog12, began); !errors.Is(err, ErrTracked) {
		t.Errorf("second Prolog: %v", err)
	}
	if got := strings.Count(read(t, dir, "started"), "\n"); got != 1 {
		t.Errorf("%d trackers were started, want 1", got)
	}
	if err := h.Epilog(epilog12, began.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if alive("/proc", note.PID, note.PIDStart) {
		t.Error("the tracker lives after the Epilog")
	}
	var exit rt.Exit
	if err := json.Unmarshal([]byte(read(t, dir, "seen.exit")), &exit); err != nil {
		t.Fatal(err)
	}
	if exit.Code != rt.Some[int64](7) || exit.Outcome != rt.OutcomeFailed || exit.Source != "epilog" {
		t.Errorf("the tracker saw the exit %+v", exit)
	}
	if left := stateFiles(t, h); len(left) != 0 {
		t.Errorf("left in the state directory: %q", left)
	}
	if err := h.Epilog(epilog12, began); err != nil {
		t.Errorf("second Epilog: %v", err)
	}
}

func TestEpilogWithoutProlog(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	if err := h.Epilog(epilog12, began); err != nil {
		t.Error(err)
	}
	if left := stateFiles(t, h); len(left) != 0 {
		t.Errorf("left in the state directory: %q", left)
	}
}

// A tracker is in a session of its own, holds none of slurmd's descriptors, has
// no signal blocked or ignored, and knows no secret of its starter.
func TestTrackerSurroundings(t *testing.T) {
	h, dir := newHook(t, fakeCurious)
	h.ConfigFile = "/etc/rt/site.toml"
	h.LogFile = filepath.Join(dir, "log")
	// A descriptor that this process was started with and knows nothing of.
	var leaked [2]int
	if err := syscall.Pipe(leaked[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaked[0])
	defer syscall.Close(leaked[1])
	// As slurmd's children are: SIGPIPE, and here SIGUSR1 too, blocked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked := uint64(1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGUSR1-1))
	var before uint64
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, uintptr(unsafe.Pointer(&blocked)), uintptr(unsafe.Pointer(&before)), 8, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	err := h.Prolog(prolog12, began)
	var after uint64
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&before)), uintptr(unsafe.Pointer(&after)), 8, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	if err != nil {
		t.Fatal(err)
	}
	if after&blocked != blocked {
		t.Errorf("the caller's mask became %x", after)
	}
	if got := read(t, dir, "args"); got != "--config /etc/rt/site.toml\n" {
		t.Errorf("arguments %q", got)
	}
	if got := read(t, dir, "cwd"); got != "/\n" {
		t.Errorf("directory %q", got)
	}
	for line := range strings.Lines(read(t, dir, "env")) {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PATH", "LANG", "PWD", "OLDPWD", "SHLVL", "_"}, name) { // the last four are the shell's
			t.Errorf("the tracker's environment has %q", line)
		}
	}
	for line := range strings.Lines(read(t, dir, "status")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name == "SigBlk" && value != "0000000000000000" {
			t.Errorf("blocked signals %s", value)
		}
		var mask uint64
		if name == "SigIgn" {
			if _, err := fmt.Sscanf(value, "%x", &mask); err != nil || mask&(1<<(syscall.SIGPIPE-1)) != 0 {
				t.Errorf("ignored signals %s, %v", value, err)
			}
		}
	}
	fields := strings.Fields(read(t, dir, "stat"))
	if pid, session := fields[0], fields[5]; pid != session {
		t.Errorf("process %s is in session %s", pid, session)
	}
	note, err := h.State.ReadNote(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	// The shell moves descriptors about while it says "ready".
	strange := strangeDescriptors(t, h, note.PID)
	for end := time.Now().Add(20 * time.Second); len(strange) > 0 && time.Now().Before(end); runtime.Gosched() {
		strange = strangeDescriptors(t, h, note.PID)
	}
	for _, s := range strange {
		t.Error(s)
	}
}

// strangeDescriptors returns what a tracker holds that it was not meant to get.
func strangeDescriptors(t *testing.T, h *Hook, pid int) []string {
	t.Helper()
	held := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(held)
	if err != nil {
		t.Fatal(err)
	}
	var strange []string
	for _, e := range entries {
		fd := e.Name()
		target, err := os.Readlink(filepath.Join(held, fd))
		if err != nil {
			continue
		}
		ok := (fd == "0" || fd == "3") && strings.HasPrefix(target, "pipe:") ||
			(fd == "1" || fd == "2") && target == h.LogFile || fd == "10" && target == h.Tracker // the shell reads its script
		if !ok {
			strange = append(strange, "descriptor "+fd+" is "+target)
		}
	}
	return strange
}

// As root the tracker runs as its user, with two capabilities and no others.
func TestTrackerUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	h, dir := newHook(t, `cat /proc/$$/status >&3`)
	h.User = &User{UID: 65534, GID: 65534}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(d, info.Mode().Perm()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
	setTracker(t, h, `got=$(grep -E '^(Uid|Gid|Groups|CapEff):' /proc/$$/status | tr -s '\t ' ' ' | tr '\n' ';')
echo "error: $got" >&3`)
	err := h.Prolog(prolog12, began)
	if err == nil {
		t.Fatal("the fake tracker's error did not arrive")
	}
	got := strings.ReplaceAll(err.Error(), " ;", ";")
	if want := "Uid: 65534 65534 65534 65534;Gid: 65534 65534 65534 65534;Groups:;"; !strings.Contains(got, want) {
		t.Errorf("the tracker is %q, want %q", got, want)
	}
	if !strings.Contains(got, "CapEff: 0000000000080004;") && !strings.Contains(got, "CapEff: 0000000000000000;") {
		t.Errorf("the tracker is %q: other capabilities than CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE", got)
	}
}

func TestPrologFaults(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, h *Hook)
		want    []string // all in the error
		noted   bool     // the tracker may still run, so the Epilog must find it
	}{
		{"missing", func(t *testing.T, h *Hook) { h.Tracker += "-missing" }, []string{"rt-tracker-missing", "no such file"}, false},
		{"not executable", func(t *testing.T, h *Hook) {
			if err := os.Chmod(h.Tracker, 0o644); err != nil {
				t.Fatal(err)
			}
		}, []string{"rt-tracker", "permission denied"}, false},
		{"says error", func(t *testing.T, h *Hook) { setTracker(t, h, fakeError) }, []string{"rt-tracker: cannot open the spool", "no such directory; make it"}, false},
		{"dies", func(t *testing.T, h *Hook) { setTracker(t, h, fakeDies) }, []string{"rt-tracker", "ended without a word, with status 9"}, false},
		{"hangs", func(t *testing.T, h *Hook) {
			setTracker(t, h, fakeHangs)
			h.ReadyTimeout = 30 * time.Millisecond
		}, []string{"rt-tracker (process ", "was not ready within 30ms"}, true},
		{"state directory cannot be made", func(t *testing.T, h *Hook) {
			h.State.Dir = filepath.Join(h.Tracker, "state")
		}, []string{"tracker.state_dir", "not a directory"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := newHook(t, fakeGood)
			tt.prepare(t, h)
			err := h.Prolog(prolog12, began)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			_, err = h.State.ReadNote(12, "n1")
			if noted := err == nil; noted != tt.noted {
				t.Errorf("a note is left: %v, want %v", noted, tt.noted)
			}
			if !tt.noted {
				if err := h.Epilog(epilog12, began); err != nil {
					t.Errorf("the Epilog repeats the fault: %v", err)
				}
			}
		})
	}
}

func TestHookContexts(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	for _, context := range []string{"prolog_slurmctld", "prolog_task"} {
		err := h.Prolog(jobEnv(context, "12", 0), began)
		if err == nil || !strings.Contains(err.Error(), context) || !strings.Contains(err.Error(), "Prolog=") {
			t.Errorf("%s: %v", context, err)
		}
	}
	if err := h.Prolog(Env{}, began); !errors.Is(err, ErrNoJob) {
		t.Errorf("without a job: %v", err)
	}
	if err := h.Epilog(Env{}, began); !errors.Is(err, ErrNoJob) {
		t.Errorf("without a job: %v", err)
	}
}

func TestRunInJob(t *testing.T) {
	h, _ := newHook(t, fakeGood)
	h.ProcRoot = t.TempDir()
	if err := os.Mkdir(filepath.Join(h.ProcRoot, "self"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.ProcRoot, "self", "cgroup"), []byte("0::/system.slice/slurmstepd.scope/job_12/step_extern/user/task_special\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := h.Prolog(prolog12, began)
	if err == nil || !strings.Contains(err.Error(), "RunInJob") {
		t.Errorf("inside the job's cgroup: %v", err)
	}
}

func TestKillSwitch(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := os.WriteFile(h.DisableFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Prolog(prolog12, began), h.Epilog(epilog12, began)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a tracker was started: %v", err)
	}
	if left := stateFiles(t, h); len(left) != 0 {
		t.Errorf("left in the state directory: %q", left)
	}
}

func TestBreaker(t *testing.T) {
	h, dir := newHook(t, fakeError)
	starts := func() int { return strings.Count(read(t, dir, "started"), "\n") }
	for i := range 3 {
		err := h.Prolog(jobEnv("prolog_slurmd", fmt.Sprint(20+i), 0), began)
		if err == nil {
			t.Fatal("no error")
		}
		if opened := strings.Contains(err.Error(), "failure 3 in a row"); opened != (i == 2) {
			t.Errorf("failure %d: %v", i+1, err)
		}
	}
	// Open: nothing is tried and nothing said.
	if err := h.Prolog(jobEnv("prolog_slurmd", "30", 0), began.Add(59*time.Minute)); err != nil || starts() != 3 {
		t.Errorf("an open breaker: %v, %d starts", err, starts())
	}
	// After the time one may try; its failure opens it again.
	if err := h.Prolog(jobEnv("prolog_slurmd", "31", 0), began.Add(time.Hour)); err == nil || starts() != 4 {
		t.Errorf("after the time: %v, %d starts", err, starts())
	}
	if err := h.Prolog(jobEnv("prolog_slurmd", "32", 0), began.Add(61*time.Minute)); err != nil || starts() != 4 {
		t.Errorf("open again: %v, %d starts", err, starts())
	}
	// A success closes it: the next failure is the first.
	setTracker(t, h, fakeGood)
	if err := h.Prolog(jobEnv("prolog_slurmd", "33", 0), began.Add(3*time.Hour)); err != nil {
		t.Error(err)
	}
	setTracker(t, h, fakeError)
	if err := h.Prolog(jobEnv("prolog_slurmd", "34", 0), began.Add(3*time.Hour)); err == nil || strings.Contains(err.Error(), "in a row") {
		t.Errorf("the first failure after a success: %v", err)
	}
	// A clock that was set back does not hold it open.
	b := h.State.breaker("n1", 1, time.Hour)
	if err := b.failed(errors.New("x"), began); err == nil || b.open(began.Add(-time.Minute)) {
		t.Errorf("open before it was opened: %v", err)
	}
}

// A tracker of an earlier attempt, whose Epilog never came, is told to stop, and
// the new attempt gets a tracker of its own.
func TestNextAttempt(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	if err := h.Prolog(prolog12, began); err != nil {
		t.Fatal(err)
	}
	old, err := h.State.ReadNote(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(jobEnv("prolog_slurmd", "12", 1), began.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	p, err := findProcess("/proc", old.PID, old.PIDStart)
	if err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
		t.Error("the old attempt's tracker lives on")
	}
	now, err := h.State.ReadNote(12, "n1")
	if err != nil || now.PID == old.PID || now.Attempt != 1 {
		t.Errorf("note %+v, %v", now, err)
	}
	if got := strings.Count(read(t, dir, "started"), "\n"); got != 2 {
		t.Errorf("%d trackers were started, want 2", got)
	}
	if err := h.Epilog(jobEnv("epilog_slurmd", "12", 2), began); err != nil {
		t.Error(err)
	}
}

func TestEpilogFaults(t *testing.T) {
	t.Run("tracker killed", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.Prolog(prolog12, began); err != nil {
			t.Fatal(err)
		}
		note, err := h.State.ReadNote(12, "n1")
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(-note.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if p, err := findProcess("/proc", note.PID, note.PIDStart); err == nil && !p.waitGone(time.Now().Add(20*time.Second)) {
			t.Fatal("SIGKILL did not end it")
		}
		err = h.Epilog(epilog12, began)
		if err == nil || !strings.Contains(err.Error(), "was gone before the job's Epilog") || !strings.Contains(err.Error(), note.Spool) {
			t.Errorf("Epilog of a dead tracker: %v", err)
		}
		if exit, err := h.State.ReadExit(12, "n1"); err != nil || exit.Code != rt.Some[int64](7) {
			t.Errorf("exit for whoever closes the run: %+v, %v", exit, err)
		}
		if err := h.Epilog(epilog12, began); err != nil {
			t.Errorf("second Epilog: %v", err)
		}
	})
	t.Run("tracker does not stop", func(t *testing.T) {
		h, _ := newHook(t, fakeStubborn)
		h.StopTimeout = 30 * time.Millisecond
		if err := h.Prolog(prolog12, began); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := h.Epilog(epilog12, began); err == nil || !strings.Contains(err.Error(), "has not ended within 30ms") {
				t.Errorf("Epilog: %v", err)
			}
		}
	})
	t.Run("number of another process", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.State.create(); err != nil {
			t.Fatal(err)
		}
		// This test's own process, but started at another time.
		if err := h.State.writeNote(12, "n1", Note{PID: os.Getpid(), PIDStart: 1}); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, began); err == nil || !strings.Contains(err.Error(), "was gone") {
			t.Errorf("Epilog: %v", err)
		}
	})
	t.Run("damaged note", func(t *testing.T) {
		h, _ := newHook(t, fakeGood)
		if err := h.State.create(); err != nil {
			t.Fatal(err)
		}
		path := h.State.path(12, "n1", "json")
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.Epilog(epilog12, began); err == nil || !strings.Contains(err.Error(), path+" is damaged") {
			t.Errorf("Epilog: %v", err)
		}
		if err := h.Epilog(epilog12, began); err != nil {
			t.Errorf("second Epilog: %v", err)
		}
	})
}

// Prologs of one job at the same time start one tracker.
func TestPrologsAtOnce(t *testing.T) {
	h, dir := newHook(t, fakeGood)
	var group sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		group.Go(func() { results <- h.Prolog(prolog12, began) })
	}
	group.Wait()
	close(results)
	started := 0
	for err := range results {
		if err == nil {
			started++
		} else if !errors.Is(err, ErrTracked) {
			t.Error(err)
		}
	}
	if lines := strings.Count(read(t, dir, "started"), "\n"); started != 1 || lines != 1 {
		t.Errorf("%d Prologs succeeded and %d trackers were started, want 1 and 1", started, lines)
	}
}

func TestStateNames(t *testing.T) {
	s := State{"/run/rt"}
	for node, want := range map[string]string{
		"n1": "/run/rt/5@n1.json", "../../etc/x": "/run/rt/5@.._.._etc_x.json", "a b\x00": "/run/rt/5@a_b_.json", "": "/run/rt/5@.json",
	} {
		if got := s.path(5, node, "json"); got != want {
			t.Errorf("node %q: %q, want %q", node, got, want)
		}
	}
}
