package tracker

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
)

const lowestPriority = 19 // a nice value, see setpriority(2)

// isLow reports whether the threads have lowestPriority.
var isLow atomic.Bool

// LowerPriority sets the nice value of all threads, and of new ones, to 19, see setpriority(2). It
// is called after "ready", because the Prolog waits until then. except is the thread that takes a
// job's last readings. The counters are gone 5 to 10 ms after the job's last process. On a busy
// core a thread of low priority would be late.
func LowerPriority(except int) {
	isLow.Store(true)
	setNice(lowestPriority, except)
}

// RaisePriority reverts LowerPriority: an Epilog waits, and on a busy node it would wait
// long. rt-prolog has set RLIMIT_NICE to permit it, or has given the tracker CAP_SYS_NICE.
func RaisePriority() {
	isLow.Store(false)
	setNice(0, 0)
}

// raiseForReading reverts LowerPriority for the calling thread until restore is called. It is
// cgroup.Options.Raise: a thread that reads the job holds a lock for which the thread of the last
// readings may wait. ok is false without permission.
func raiseForReading() (restore func(), ok bool) {
	if !isLow.Load() {
		return func() {}, true
	}
	runtime.LockOSThread()
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 0); err != nil {
		runtime.UnlockOSThread()
		return nil, false
	}
	return lowerAfterReading, true
}

func lowerAfterReading() {
	if isLow.Load() {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, lowestPriority) // lowering needs no permission
		if !isLow.Load() {                                               // RaisePriority came in between
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 0) // without permission it stays low
		}
	}
	runtime.UnlockOSThread()
}

// raiseThread does so for the thread of a cgroup that Search has found, which began later.
func raiseThread(thread int) {
	const zero = 20 // what getpriority(2) returns in the kernel for nice value 0
	if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, thread); err == nil && p < zero {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, thread, 0) // without permission it may be late
	}
}

// setNice sets the nice value of all threads but one.
func setNice(nice, except int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // a tracker at any priority is better than none
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil && tid != except {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, tid, nice) // the thread may have ended, and raising may not be permitted
		}
	}
}
