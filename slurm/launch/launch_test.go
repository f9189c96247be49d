package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A tracker has its own session, none of slurmd's descriptors, no ignored signal, and no variables
// of its parent.
func TestTrackerProcess(t *testing.T) {
	t.Setenv("SENTINEL_API_TOKEN", "secret")
	h, dir := newHook(t, fakeRecorder)
	h.ConfigFile = "/etc/rt/site.toml"
	log := filepath.Join(dir, "log")
	h.OpenLog = func() (*os.File, error) { return os.Create(log) }
	// A descriptor that this process has inherited.
	var leaked [2]int
	if err := syscall.Pipe(leaked[:]); err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leaked[0])
	defer syscall.Close(leaked[1])
	// Like slurmd's children: SIGPIPE is blocked, here SIGUSR1 too.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked := uint64(1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGUSR1-1))
	var before uint64
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 0, uintptr(unsafe.Pointer(&blocked)), uintptr(unsafe.Pointer(&before)), 8, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	err := h.Prolog(prolog12)
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
	state, err := h.State.ReadStateFile(12, "n1")
	if err != nil {
		t.Fatal(err)
	}
	// The shell moves descriptors while it writes "ready".
	strange := strangeDescriptors(t, h, state.PID, log)
	for end := time.Now().Add(20 * time.Second); len(strange) > 0 && time.Now().Before(end); runtime.Gosched() {
		strange = strangeDescriptors(t, h, state.PID, log)
	}
	for _, s := range strange {
		t.Error(s)
	}
}

// Only SIGUSR1 is blocked: a tracker that the Epilog stops before it has its handler is not killed.
func TestTrackerSignalMask(t *testing.T) {
	h, _ := newHook(t, "")
	// A shell may change the mask that it inherits.
	fake := "#!/usr/bin/awk -f\nBEGIN { while ((getline < \"/proc/self/status\") > 0) if (/^SigBlk/) print \"error: \" $0 >\"/dev/fd/3\" }\n"
	if err := os.WriteFile(h.Tracker, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // with its mask, this thread ends with the test
	var pipe unix.Sigset_t
	pipe.Val[0] = 1 << (unix.SIGPIPE - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &pipe, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(prolog12); err == nil || !strings.HasSuffix(err.Error(), "SigBlk:\t0000000000000200") {
		t.Errorf("the tracker reports %v", err)
	}
}

// strangeDescriptors returns the descriptors of a tracker that it should not have.
func strangeDescriptors(t *testing.T, h *Hook, pid int, log string) []string {
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
			(fd == "1" || fd == "2") && target == log || fd == "10" && target == h.Tracker // the shell reads its script
		if !ok {
			strange = append(strange, "descriptor "+fd+" is "+target)
		}
	}
	return strange
}

// Started by root, the tracker runs as its user with only two capabilities. It also has CAP_PERFMON
// if the site wants counters, and CAP_SYS_NICE if RLIMIT_NICE cannot be set.
func TestTrackerUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: starts a process as another user")
	}
	t.Run("as it is", func(t *testing.T) { trackerUser(t, false, 0x80004) })
	t.Run("with counters", func(t *testing.T) { trackerUser(t, true, 0x4000080004) })
}

// trackerUser checks the user and the capabilities of the tracker. It may return to nice 0: by RLIMIT_NICE, or else
// by CAP_SYS_NICE.
func trackerUser(t *testing.T, counters bool, capabilities uint64) {
	if !allowNiceZero() && hasCapability(unix.CAP_SYS_NICE) {
		capabilities |= 1 << unix.CAP_SYS_NICE
	}
	h, dir := newHook(t, `cat /proc/$$/status >&3`)
	h.User, h.Counters = &User{UID: 65534, GID: 65534}, counters
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(d, info.Mode().Perm()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
	setTracker(t, h, `got=$(grep -E '^(Uid|Gid|Groups|CapEff):' /proc/$$/status | tr -s '\t ' ' ' | tr '\n' ';')
echo "error: $got" >&3`)
	err := h.Prolog(prolog12)
	if err == nil {
		t.Fatal("the fake tracker's error did not arrive")
	}
	got := strings.ReplaceAll(err.Error(), " ;", ";")
	if want := "Uid: 65534 65534 65534 65534;Gid: 65534 65534 65534 65534;Groups:;"; !strings.Contains(got, want) {
		t.Errorf("the tracker is %q, want %q", got, want)
	}
	if !strings.Contains(got, fmt.Sprintf("CapEff: %016x;", capabilities)) && !strings.Contains(got, "CapEff: 0000000000000000;") {
		t.Errorf("the tracker is %q: other capabilities than %016x", got, capabilities)
	}
}

// A tracker uses no transparent huge pages.
func TestTrackerHasNoHugePages(t *testing.T) {
	h, _ := newHook(t, "")
	fake := "#!/usr/bin/awk -f\nBEGIN { while (getline < \"/proc/self/status\") if (/^THP_enabled/) print \"error: \" $0 >\"/dev/fd/3\" }\n"
	if err := os.WriteFile(h.Tracker, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(prolog12); err == nil || !strings.HasSuffix(err.Error(), "THP_enabled:\t0") {
		t.Errorf("the tracker reports %v", err)
	}
}
