package launch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// tracker is a started tracker process that has not reported its state yet.
type tracker struct {
	path    string
	pid     int      // of our child; it is not reused, because this process does not wait for it
	start   uint64   // field 22 of /proc/<pid>/stat
	feed    *os.File // writing end of its standard input
	ready   *os.File // reading end of its descriptor 3
	timeout time.Duration
	delay   time.Duration // the tracker waits for this time before it does anything
}

// spread holds the random waits of one of many Prologs that run at once. Without them the trackers
// that have started would take the CPU from the Prologs that have not started theirs.
type spread struct {
	fork  time.Duration // from now until the Prolog starts its tracker
	begin time.Duration // from then until the tracker begins; 0: it begins at once, and the Prolog waits until it is ready
}

// newSpread returns random waits for a Prolog if this number of Prologs run at once. Up to burst Prologs
// per core need no wait, because their trackers are ready in time.
func newSpread(prologs, cores int) spread {
	const (
		burst     = 16
		forkCost  = 6 * time.Millisecond // CPU time of a Prolog, and of its tracker until the tracker has the run
		startCost = 15 * time.Millisecond
		maxFork   = 2 * time.Second
	)
	if prologs <= burst*cores {
		return spread{}
	}
	perCore := time.Duration(prologs / cores)
	forks := min(perCore*forkCost, maxFork)
	return spread{rand.N(forks), forks + rand.N(perCore*startCost)}
}

// launch starts the tracker outside the Prolog's process group, because slurmd kills that group. The
// standard input of the tracker is a pipe, see describe. Its descriptor 3 is the writing end of another
// pipe, see waitReady. It gets no descriptor that keeps slurmd's pipes open.
func (h *Hook) launch(delay time.Duration) (_ *tracker, err error) {
	stdin, feed, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	defer stdin.Close()
	defer func() {
		if err != nil {
			feed.Close()
		}
	}()
	ready, report, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	defer report.Close()
	defer func() {
		if err != nil {
			ready.Close()
		}
	}()
	output, err := h.openOutput()
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	defer output.Close()

	pid, err := h.startProcess([]uintptr{stdin.Fd(), output.Fd(), output.Fd(), report.Fd()}, delay)
	if err != nil {
		return nil, fmt.Errorf("cannot start the tracker: %w", err)
	}
	t := &tracker{path: h.Tracker, pid: pid, feed: feed, ready: ready, timeout: h.ReadyTimeout, delay: delay}
	if stat, err := procfile.ReadStat(h.ProcRoot, pid); err == nil {
		t.start = stat.Start
	}
	return t, nil
}

// describe sends the text of the run to the tracker. A tracker that gets no run exits.
func (t *tracker) describe(text []byte, deadline time.Time) error {
	err := t.feed.SetWriteDeadline(latest(deadline))
	if err == nil {
		_, err = t.feed.Write(text)
	}
	// A tracker that has already ended causes EPIPE here; its reason is on ready.
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%s (process %d) does not read its run: %w", t.path, t.pid, err)
	}
	return nil
}

// stop sends the tracker SIGTERM.
func (t *tracker) stop() error {
	return os.NewSyscallError("kill", syscall.Kill(t.pid, syscall.SIGTERM))
}

// openOutput opens the tracker's standard output and error, to which only a crash writes.
func (h *Hook) openOutput() (*os.File, error) {
	if h.OpenLog != nil {
		if f, err := h.OpenLog(); err == nil {
			return f, nil
		}
	}
	return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
}

// startProcess starts the tracker's binary. files become its descriptors 0, 1, 2 and so on. SIGUSR1
// is its only blocked signal.
//
// The tracker inherits the mask of blocked signals through exec. slurmd blocks SIGPIPE in its
// children, and slurmctld blocks more, so the mask is replaced. On a busy node a short job can end
// before its tracker handles SIGUSR1, which the Epilog sends. While it is blocked the signal stays
// pending, so the tracker still writes a run; signal.Notify unblocks it. SIGTERM does not serve for
// that, because the Go runtime unblocks it before there is a handler.
//
// The tracker inherits no signal handler. The Go runtime of this process handles all signals that
// were not ignored at its start, and exec resets handled signals to their default.
//
// The kernel suspends the thread that forks (CLONE_VFORK) until exec has returned. On a dead file
// system exec never returns, and the thread keeps its P (processor) of the Go runtime. So the
// deadlines of the hook need a second P.
//
// A delay means that many Prologs run at once. Their trackers must not take the CPU from them, so
// the tracker begins with a low priority. It then gets a process group but no session, because Linux
// gives each session the same share of the CPU (sched_autogroup_enabled). The group is enough,
// because slurmd kills only the group of the Prolog.
func (h *Hook) startProcess(files []uintptr, delay time.Duration) (pid int, err error) {
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))) // a hook with one P from its start would be slower
	argv := []string{h.Tracker}
	if h.ConfigFile != "" {
		argv = append(argv, "--config", h.ConfigFile)
	}
	if delay > 0 {
		argv = append(argv, "--delay", delay.String())
	}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, Files: files}
	closeOnExec()
	// The tracker inherits this setting. With huge pages, 4 MiB more of it would be resident.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	// The child inherits the capabilities and the mask of the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	needsNice := !allowNiceZero() && hasCapability(unix.CAP_SYS_NICE)
	restore, err := blockStop()
	if err != nil {
		return 0, err
	}
	defer restore()
	// os.StartProcess would first start another process, to check for pidfds. Nothing waits for the
	// tracker, so it needs no pidfd.
	for _, attr.Sys = range h.privileges(needsNice) {
		attr.Sys.Setsid, attr.Sys.Setpgid = delay == 0, delay > 0
		pid, _, err = syscall.StartProcess(h.Tracker, argv, attr)
		if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EINVAL) {
			break
		}
	}
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: h.Tracker, Err: err}
	}
	if delay > 0 {
		// Not before the start: this thread waits for the child's exec. The tracker raises its priority
		// when it begins.
		_ = unix.Setpriority(unix.PRIO_PROCESS, pid, 19)
	}
	return pid, nil
}

// privileges returns the attributes to try for the tracker, with the most capabilities first, see
// capabilities(7). A tracker without root needs capabilities for /proc/<pid>/environ and io of the
// job's processes. It also needs them for cgroup files, directories and energy counters that only
// root may read. It needs CAP_PERFMON for perf_event_open(2), if the configuration has events. With needsNice it
// gets CAP_SYS_NICE, because allowNiceZero has failed.
//
// Kernels before 5.8 do not have CAP_PERFMON, and root in a container may have no capability. The
// tracker starts no process that could inherit a capability.
func (h *Hook) privileges(needsNice bool) []*syscall.SysProcAttr {
	with := func(caps ...uintptr) *syscall.SysProcAttr {
		attr := &syscall.SysProcAttr{}
		if h.User != nil {
			attr.Credential = &syscall.Credential{Uid: h.User.UID, Gid: h.User.GID}
			attr.AmbientCaps = caps
		}
		return attr
	}
	if h.User == nil {
		return []*syscall.SysProcAttr{with()}
	}
	list := []*syscall.SysProcAttr{with(unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_PTRACE), with()}
	if needsNice {
		list = slices.Insert(list, 0, with(unix.CAP_SYS_NICE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_PTRACE))
	}
	if h.Counters {
		counting := with(append([]uintptr{unix.CAP_PERFMON}, list[0].AmbientCaps...)...)
		list = slices.Insert(list, 0, counting)
	}
	return list
}

// waitReady waits for the tracker's line on its descriptor 3: "ready", or "error: ..." if
// it cannot track. It also reports whether the tracker is still running.
func (t *tracker) waitReady(deadline time.Time) (running bool, err error) {
	defer t.ready.Close()
	if t.delay > 0 {
		return true, fmt.Errorf("many jobs begin at once: %s (process %d) begins in %s; %w", t.path, t.pid, t.delay.Round(time.Millisecond), ErrLate)
	}
	if err := t.ready.SetReadDeadline(latest(deadline)); err != nil {
		return true, fmt.Errorf("cannot read the state of %s (process %d): %w", t.path, t.pid, err)
	}
	line, err := bufio.NewReader(io.LimitReader(t.ready, 4096)).ReadString('\n')
	line = strings.TrimSuffix(line, "\n")
	switch {
	case line == "ready":
		return true, nil
	case line != "":
		return false, fmt.Errorf("%s: %s", t.path, strings.TrimPrefix(line, "error: "))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return true, fmt.Errorf("%s (process %d) was not ready within %s; %w", t.path, t.pid, t.timeout, ErrLate)
	case !errors.Is(err, io.EOF):
		return true, fmt.Errorf("cannot read the state of %s (process %d): %w", t.path, t.pid, err)
	}
	return false, fmt.Errorf("%s (process %d) ended without a message%s", t.path, t.pid, t.status(deadline))
}

// leastWait is the least time for each wait for a tracker. On a busy node exec alone can last until the deadline. The
// Prolog then still lets the tracker run.
const leastWait = 10 * time.Millisecond

// latest returns deadline, or the time leastWait from now if that is later.
func latest(deadline time.Time) time.Time {
	least := time.Now().Add(leastWait)
	if deadline.After(least) {
		return deadline
	}
	return least
}

// status describes how a tracker ended. It waits at least leastWait, because a tracker closes its
// descriptors shortly before the end. The text is empty if the tracker has not ended by then.
func (t *tracker) status(deadline time.Time) string {
	var ws syscall.WaitStatus
	until := latest(deadline)
	for {
		pid, err := syscall.Wait4(t.pid, &ws, syscall.WNOHANG, nil)
		isKnown := err != nil || pid == t.pid
		if isKnown || !time.Now().Before(until) {
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

// closeOnExec sets close-on-exec on all descriptors above 2. The Go runtime does so only for
// descriptors that it opened. Kernels before 5.11 fail, which does no harm: slurmd leaves no
// descriptors open.
func closeOnExec() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }

// allowNiceZero sets the limit with which the tracker may raise its priority to the nice value 0. The
// tracker has a lower priority, except during a reading and when the Epilog waits. ok is false
// without CAP_SYS_RESOURCE, which slurmd in a container can lack.
func allowNiceZero() (ok bool) {
	const zero = 20 // the nice value 0, see getrlimit(2)
	return unix.Setrlimit(unix.RLIMIT_NICE, &unix.Rlimit{Cur: zero, Max: zero}) == nil
}

// blockStop makes SIGUSR1 the only blocked signal of the calling thread, which must be locked.
func blockStop() (restore func(), err error) {
	var mask, old unix.Sigset_t
	mask.Val[0] = 1 << (unix.SIGUSR1 - 1)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, &old); err != nil {
		return nil, os.NewSyscallError("rt_sigprocmask", err)
	}
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }, nil
}

// hasCapability reports whether the calling thread has a capability in its effective set, see capabilities(7).
func hasCapability(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return err == nil && sets[capability/32].Effective&(1<<(capability%32)) != 0
}
