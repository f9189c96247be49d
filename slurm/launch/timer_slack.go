package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// monitorSlack is how late the monitor thread of a tracker's Go runtime (sysmon) may wake up. While a goroutine runs,
// it sleeps 20 us again and again. With the default slack of 50 us these wake-ups are a third of the CPU time of a
// reading, and a tenth of a tracker's start. Therefore the Prolog sets the slack when the tracker has started, if it may.
// The runtime takes the time since the reading before for time in which the goroutine has run. So the monitor thread
// interrupts it at its first wake-up in a reading, and the goroutine goes on in another thread. Most readings end before.
const monitorSlack = 5 * time.Millisecond

// inheritedSlack is the slack of all threads of a tracker to which the Prolog cannot give monitorSlack, or not yet. It is shorter,
// because a thread that takes a goroutine from another sleeps 3 us before: such a tracker is ready half a millisecond later.
const inheritedSlack = time.Millisecond

// setTimerSlack sets the timer slack of the monitor thread of a process, which this process has started and not
// waited for. The Go runtime starts this thread first: it is the second thread. To set it needs CAP_SYS_NICE and
// Linux 4.6, see maySetTimerSlack. ok is false without success: the tracker then uses more CPU time.
func setTimerSlack(procRoot string, pid int) (ok bool) {
	task, err := os.Open(filepath.Join(procRoot, strconv.Itoa(pid), "task"))
	if err != nil {
		return false
	}
	defer task.Close()
	threads, err := task.Readdirnames(2)
	if err != nil || len(threads) < 2 {
		return false
	}
	return writeSlack(procRoot, threads[1], strconv.AppendInt(nil, monitorSlack.Nanoseconds(), 10))
}

// writeSlack sets the slack of one thread. /proc lists only processes, but has a directory of each thread.
// os.File would call the kernel five times more.
func writeSlack(procRoot, thread string, text []byte) (ok bool) {
	fd, err := syscall.Open(filepath.Join(procRoot, thread, "timerslack_ns"), syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_, err = syscall.Write(fd, text)
	_ = syscall.Close(fd)
	return err == nil
}

// maySetTimerSlack reports whether the calling thread, which must be locked, may set the slack of other processes.
func maySetTimerSlack(procRoot string) bool {
	return hasCapability(unix.CAP_SYS_NICE) && unix.Access(filepath.Join(procRoot, "self/timerslack_ns"), unix.W_OK) == nil
}

// hasCapability reports whether the calling thread has a capability in its effective set, see capabilities(7).
func hasCapability(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	err := unix.Capget(&header, &sets[0])
	return err == nil && sets[capability/32].Effective&(1<<(capability%32)) != 0
}

// inheritTimerSlack gives the calling thread, which must be locked, inheritedSlack, so that a child inherits it. It
// needs no capability. restore reverts it.
func inheritTimerSlack() (restore func()) {
	old, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return func() {}
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(inheritedSlack.Nanoseconds()), 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(old), 0, 0, 0) }
}
