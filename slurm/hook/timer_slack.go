package hook

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// timerSlack is how late the timers of a ready tracker may be. While a goroutine runs, a thread of the Go runtime
// sleeps 20 us again and again. With the default slack of 50 us these wake-ups are a third of the CPU time of a
// reading. Before the tracker is ready the slack would delay it by half a millisecond: a thread that takes a
// goroutine from another first sleeps 3 us.
const timerSlack = time.Millisecond

// setTimerSlack sets the timer slack of all threads of a process; a thread inherits that of the one that creates
// it. It needs CAP_SYS_NICE and Linux 4.6. Without them the tracker only uses more CPU time.
func setTimerSlack(procRoot string, pid int) {
	threads, err := os.ReadDir(filepath.Join(procRoot, strconv.Itoa(pid), "task"))
	if err != nil {
		return
	}
	text := strconv.AppendInt(nil, timerSlack.Nanoseconds(), 10)
	for _, t := range threads {
		// /proc lists only processes, but has a directory of each thread. os.File would call the kernel five times more.
		fd, err := syscall.Open(filepath.Join(procRoot, t.Name(), "timerslack_ns"), syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		_, _ = syscall.Write(fd, text)
		_ = syscall.Close(fd)
	}
}
