package main

import (
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/internal/recovery"
)

// orphans are the processes of the command that have lost their parent. The kernel makes them children of this
// process (PR_SET_CHILD_SUBREAPER of prctl(2)), which waits for them. It implements proc.Orphans. A nil *orphans
// has none.
type orphans struct {
	isSubreaper bool
	quit        chan struct{}

	mu        sync.Mutex
	isReaping bool
	own       map[int]bool // children that this process has started
	ended     []proc.EndedProcess
	used      unix.Rusage // by the orphans and the children that they waited for
}

// reapAfter is the time after which this process waits for orphans. Before, a library of a GPU may start a program
// of its own and wait for it.
const reapAfter = time.Second

// newOrphans makes this process the parent of orphans.
func newOrphans() *orphans {
	o := &orphans{quit: make(chan struct{}), own: map[int]bool{}}
	o.isSubreaper = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil
	return o
}

// startOwn starts a child of this process that is no orphan. begin returns its pid.
func (o *orphans) startOwn(begin func() (pid int, err error)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	pid, err := begin()
	if err == nil {
		o.own[pid] = true
	}
	return err
}

// start calls cmd.Start.
func (o *orphans) start(cmd *exec.Cmd) error {
	if o == nil {
		return cmd.Start()
	}
	return o.startOwn(func() (int, error) {
		err := cmd.Start()
		if err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
}

// follow waits for the orphans that end, until stop.
func (o *orphans) follow() {
	defer recovery.Handle(warn)
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGCHLD)
	defer signal.Stop(ends)
	select {
	case <-time.After(reapAfter):
	case <-o.quit:
		return
	}
	for {
		o.mu.Lock()
		o.isReaping = true
		o.reap()
		o.mu.Unlock()
		select {
		case <-ends:
		case <-o.quit:
			return
		}
	}
}

// reap waits for the orphans that have ended. An own child that has ended stops it until that is waited for
// elsewhere: the tree then has the orphans after it as zombies. The caller holds the lock.
func (o *orphans) reap() {
	for {
		pid := endedChild()
		if pid == 0 || o.own[pid] {
			return
		}
		last, readErr := proc.ReadZombie(pid)
		var used unix.Rusage
		if _, err := unix.Wait4(pid, nil, 0, &used); err != nil {
			return
		}
		if readErr != nil { // without procfs
			last = proc.EndedProcess{PID: pid, Own: [2]uint64{ticks(used.Utime), ticks(used.Stime)}}
		}
		o.ended = append(o.ended, last)
		addUsage(&o.used, &used)
	}
}

func ticks(t unix.Timeval) uint64 { return uint64(t.Nano()) / (1e9 / rt.TicksPerSecond) }

// addUsage adds what an orphan used.
func addUsage(sum, used *unix.Rusage) {
	sum.Utime = unix.NsecToTimeval(sum.Utime.Nano() + used.Utime.Nano())
	sum.Stime = unix.NsecToTimeval(sum.Stime.Nano() + used.Stime.Nano())
	sum.Maxrss = max(sum.Maxrss, used.Maxrss)
	sum.Majflt += used.Majflt
}

// endedChild returns a child of this process that has ended, and leaves it as a zombie; 0 for none.
func endedChild() int {
	const pidAt = 4 // siginfo_t of 64-bit machines in words of 4 bytes, see asm-generic/siginfo.h
	var info unix.Siginfo
	if unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil {
		return 0
	}
	return int((*[32]int32)(unsafe.Pointer(&info))[pidAt])
}

// IsOwn implements proc.Orphans.
func (o *orphans) IsOwn(pid int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.own[pid]
}

// Ended implements proc.Orphans.
func (o *orphans) Ended(dst []proc.EndedProcess) []proc.EndedProcess {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isReaping { // an own child may have stopped the last one
		o.reap()
	}
	dst = append(dst, o.ended...)
	o.ended = o.ended[:0]
	return dst
}

// stop ends follow, and adds what the orphans have used to the usage of the command.
func (o *orphans) stop(used *unix.Rusage) {
	close(o.quit)
	o.mu.Lock()
	defer o.mu.Unlock()
	addUsage(used, &o.used)
}
