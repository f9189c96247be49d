package hook

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Linux capabilities that the tracker keeps when it is not root, see
// capabilities(7): to read /proc/<pid>/environ and io of the job's processes, and
// cgroup files, directories and energy counters that are root's. The third is for
// perf_event_open(2), where the site wants counters; kernels before 5.8 have it not.
const (
	capDACReadSearch = 2
	capSysPtrace     = 19
	capPerfmon       = 38
)

// tracker is a process that was started and has not said anything yet.
type tracker struct {
	path    string
	pid     int      // of our child, which we do not wait for: nobody else gets the number
	start   uint64   // field 22 of /proc/<pid>/stat
	ready   *os.File // the reading end of its descriptor 3
	timeout time.Duration
}

// launch starts the tracker in a session of its own, since slurmd kills the
// Prolog's process group, with the completed Run as JSON on its standard input, the writing
// end of a pipe as descriptor 3, and nothing that keeps slurmd's pipes open.
func (h *Hook) launch(run *rt.Run, deadline time.Time) (_ *tracker, err error) {
	var ours, theirs []io.Closer
	defer func() {
		closeAll(theirs)
		if err != nil {
			closeAll(ours)
		}
	}()
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	theirs = append(theirs, stdin)
	defer feed.Close()
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	ours, theirs = append(ours, ready), append(theirs, tell)
	output, err := h.openOutput()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	theirs = append(theirs, output)

	pid, err := h.startProcess([]*os.File{stdin, output, output, tell})
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	t := &tracker{path: h.Tracker, pid: pid, ready: ready, timeout: h.ReadyTimeout}
	if stat, err := procfile.ReadStat(h.ProcRoot, pid); err == nil {
		t.start = stat.Start
	}
	// What is left to find out is found out while the program is loaded.
	h.complete(run)
	text, err := json.Marshal(run)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot describe the run to the tracker: %w", err), t.stop())
	}
	// A tracker that has ended already gives EPIPE here, and its reason on ready.
	err = feedRun(feed, text, deadline)
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, errors.Join(fmt.Errorf("%s (process %d) does not read its run: %w", h.Tracker, pid, err), t.stop())
	}
	return t, nil
}

// stop tells the tracker to end.
func (t *tracker) stop() error {
	return os.NewSyscallError("kill", syscall.Kill(t.pid, syscall.SIGTERM))
}

// openOutput opens what the tracker prints to, which is only of interest when it crashes.
func (h *Hook) openOutput() (*os.File, error) {
	if h.OpenLog != nil {
		if f, err := h.OpenLog(); err == nil {
			return f, nil
		}
	}
	return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
}

// startProcess starts the tracker's binary on the given descriptors 0, 1, 2, ...,
// with an empty signal mask: slurmd blocks SIGPIPE in its children and slurmctld
// more, and a mask goes through fork and exec. Dispositions need no care: the
// runtime handles all signals but those ignored at its start, and a child begins
// with the default of what is handled.
//
// Until exec has returned, which a dead file system prevents, the kernel suspends the
// thread that forks (CLONE_VFORK), and no other may have its processor of the
// runtime: the deadlines of the hook need a second one.
func (h *Hook) startProcess(files []*os.File) (pid int, err error) {
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	argv := []string{h.Tracker}
	if h.ConfigFile != "" {
		argv = append(argv, "--config", h.ConfigFile)
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	defer runtime.KeepAlive(files)
	inheritNothing()
	letRise()
	// The child inherits the mask of the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := clearSignalMask()
	if err != nil {
		return 0, err
	}
	defer restore()
	// Not by os.StartProcess, which starts a process more to see whether there are
	// pidfds, and a tracker that nobody waits for needs none.
	for _, attr.Sys = range h.privileges() {
		pid, _, err = syscall.StartProcess(h.Tracker, argv, attr)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
			break
		}
	}
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: h.Tracker, Err: err}
	}
	return pid, nil
}

// privileges are what a tracker may be started with, the best first: kernels before 5.8
// do not know the third capability, and in a container root may lack them all; then the
// tracker does without.
func (h *Hook) privileges() []*syscall.SysProcAttr {
	with := func(caps ...uintptr) *syscall.SysProcAttr {
		attr := &syscall.SysProcAttr{Setsid: true}
		if h.User != nil {
			attr.Credential = &syscall.Credential{Uid: h.User.UID, Gid: h.User.GID}
			attr.AmbientCaps = caps
		}
		return attr
	}
	switch {
	case h.User == nil:
		return []*syscall.SysProcAttr{with()}
	case h.Counters:
		return []*syscall.SysProcAttr{with(capPerfmon, capDACReadSearch, capSysPtrace), with(capDACReadSearch, capSysPtrace), with()}
	}
	return []*syscall.SysProcAttr{with(capDACReadSearch, capSysPtrace), with()}
}

// waitReady waits for what the tracker says on its descriptor 3: "ready", or
// "error: ..." where it cannot track; it also tells whether the tracker runs on.
func (t *tracker) waitReady(deadline time.Time) (running bool, err error) {
	defer t.ready.Close()
	if err := t.ready.SetReadDeadline(deadline); err != nil {
		return true, fmt.Errorf("cannot wait for %s (process %d): %w", t.path, t.pid, err)
	}
	said, err := bufio.NewReader(io.LimitReader(t.ready, 4096)).ReadString('\n')
	said = strings.TrimSuffix(said, "\n")
	switch {
	case said == "ready":
		return true, nil
	case said != "":
		return false, fmt.Errorf("%s: %s", t.path, strings.TrimPrefix(said, "error: "))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return true, fmt.Errorf("%s (process %d) was not ready within %s; it is left to itself", t.path, t.pid, t.timeout)
	case !errors.Is(err, io.EOF):
		return true, fmt.Errorf("cannot hear of %s (process %d): %w", t.path, t.pid, err)
	}
	return false, fmt.Errorf("%s (process %d) ended without a word%s", t.path, t.pid, t.status())
}

// status says how a tracker ended that has closed its descriptors, where that is
// known already.
func (t *tracker) status() string {
	var ws syscall.WaitStatus
	for range 10 {
		if pid, err := syscall.Wait4(t.pid, &ws, syscall.WNOHANG, nil); err != nil || pid == t.pid {
			break
		}
		time.Sleep(time.Millisecond)
	}
	switch {
	case ws.Exited() && ws.ExitStatus() != 0:
		return fmt.Sprintf(", with status %d", ws.ExitStatus())
	case ws.Signaled():
		return fmt.Sprintf(", by signal %d", ws.Signal())
	}
	return ""
}

// inheritNothing marks every descriptor above 2 to be closed by exec. The runtime
// does so for its own; these are what this process was started with. Kernels
// before 5.11 refuse, and slurmd passes none on.
func inheritNothing() {
	const (
		sysCloseRange = 436 // the same on all of rt's platforms
		cloexec       = 4   // CLOSE_RANGE_CLOEXEC of <linux/close_range.h>
	)
	_, _, _ = syscall.RawSyscall(sysCloseRange, 3, 1<<31-1, cloexec)
}

// letRise lets the tracker, which lowers its priority while the job runs, take that
// back when the Epilog waits for it. Where that may not be, it ends as it ran.
func letRise() {
	const (
		rlimitNice = 13 // RLIMIT_NICE of <sys/resource.h>
		zero       = 20 // the nice value 0, see getrlimit(2)
	)
	_ = syscall.Setrlimit(rlimitNice, &syscall.Rlimit{Cur: zero, Max: zero})
}

// clearSignalMask empties the mask of the calling thread, which must be locked to
// its goroutine, and returns how to put it back.
func clearSignalMask() (restore func(), err error) {
	const (
		sigSetmask = 2 // SIG_SETMASK of <signal.h>
		setSize    = 8 // bytes of the kernel's sigset_t
	)
	var empty, old uint64
	set := func(to, was *uint64) error {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetmask,
			uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(was)), setSize, 0, 0)
		if errno != 0 {
			return os.NewSyscallError("rt_sigprocmask", errno)
		}
		return nil
	}
	if err := set(&empty, &old); err != nil {
		return nil, err
	}
	return func() { _ = set(&old, nil) }, nil
}

// feedRun writes what the pipe takes at once, which is all but always the whole run,
// however late it is: on a busy node exec alone can use up the deadline, and a tracker
// that is slow is left to itself. What is left is written until the deadline.
func feedRun(feed *os.File, text []byte, deadline time.Time) error {
	raw, err := feed.SyscallConn()
	if err != nil {
		return err
	}
	written := 0
	err = raw.Write(func(fd uintptr) bool {
		written, _ = syscall.Write(int(fd), text) // it fails again below
		return true
	})
	written = max(written, 0)
	if err != nil || written == len(text) {
		return err
	}
	if err := feed.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err = feed.Write(text[written:])
	return err
}

func closeAll(files []io.Closer) {
	for _, f := range files {
		f.Close()
	}
}
