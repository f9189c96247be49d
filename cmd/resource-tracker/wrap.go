package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tracker"
)

// recordTimeout limits the wait for the last reading, and the wait until the spool is closed.
const recordTimeout = 5 * time.Second

// stepLockTimeout limits the wait for the lock of the step.
const stepLockTimeout = time.Second

// wrap runs the command and returns its status. Errors of the tracking are only warnings.
func wrap(s settings) error {
	locks := make(chan tracker.StepLock, 1)
	go func() {
		defer recovery.Handle(func(err error) { warn(err); locks <- tracker.StepLock{} })
		locks <- acquireStepLock(s)
	}()
	select {
	case lock := <-locks:
		if lock.Lost() && s.output == "" {
			return execCommand(s.command) // nothing was set up yet that the command would inherit
		}
		locks <- lock
	case <-time.After(stepLockTimeout): // a disk that hangs must not delay the command further
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write to a closed pipe returns EPIPE and does not end this process before the command
	started := time.Now()
	s.orphans = newOrphans()
	var leader *child
	err := s.orphans.startOwn(func() (pid int, err error) {
		leader, err = start(s.command)
		if err != nil {
			return 0, err
		}
		return leader.pid, nil
	})
	if err != nil {
		return err
	}
	go s.orphans.follow()
	ctx, cancel := context.WithCancelCause(context.Background())
	var begun atomic.Pointer[tracking]
	recorded := make(chan *tracking, 1)
	go func() {
		recorded <- follow(ctx, s, locks, func() rt.Run { return newRun(s, leader.pid, started) }, &begun)
	}()

	leader.wait()
	cancel(collect.ErrCommandEnded)
	var t *tracking
	select {
	case t = <-recorded: // the last reading includes what the command has used
	case <-time.After(recordTimeout):
		warn(fmt.Errorf("the last reading took longer than %s: the record is not complete", recordTimeout))
	}
	shutdown, stop := shutdownContext() // before reap, which ends the forwarding of signals
	defer stop()
	status, used, signalled := leader.reap()
	s.orphans.stop(&used)
	soon, cancelSoon := context.WithTimeout(shutdown, recordTimeout)
	defer cancelSoon()
	if t != nil {
		t.noteRunning()
		t.note(rusageEvent(&used, leader.ownPeak))
		finish(t, exitOf(status, signalled, time.Now()))
		t.printSummary(s)
		t.deliver(shutdown)
		t.print(soon)
	} else if t := begun.Load(); t != nil {
		t.abandon()
		t.print(soon)
	}
	if code := shellStatus(status); code != 0 {
		return commandStatus(code)
	}
	return nil
}

// acquireStepLock takes the lock of the command's step. It ignores errors of the spool, because
// track reports them.
func acquireStepLock(s settings) tracker.StepLock {
	run, err := environ.FromTask(environ.NewEnv(os.Environ()), tracker.OwnStep(), time.Time{})
	if err != nil {
		return tracker.StepLock{}
	}
	setNode(&run)
	name := tracker.StepLockName(&run)
	if name == "" || !s.hasSpool() {
		return tracker.StepLock{}
	}
	dir, err := s.findSpool(spool.CheckDir)
	if err != nil {
		return tracker.StepLock{}
	}
	return tracker.AcquireStepLock(dir, name)
}

// follow tracks the command until ctx is done. If another task has the step's lock, it tracks
// only for --output. It returns nil if the command is not tracked, or if a panic ended the
// tracking. It sets begun when the tracking starts.
func follow(ctx context.Context, s settings, locks <-chan tracker.StepLock, run func() rt.Run, begun *atomic.Pointer[tracking]) (t *tracking) {
	defer recovery.Handle(func(err error) {
		warn(fmt.Errorf("the command is no longer tracked: %w", err))
		t = nil
	})
	lock := <-locks
	if lock.Lost() {
		s.spoolDir, s.anySpool = "", false
		s.listen, s.connect = nil, nil // only the task that has the lock does this
		if s.output == "" {
			return nil
		}
	}
	t, err := track(s, run(), warn, warn)
	if err != nil {
		warn(fmt.Errorf("the command runs untracked: %w", errors.Join(err, lock.Close())))
		return nil
	}
	t.lock = lock
	begun.Store(t)
	t.rec.Run(ctx)
	if t.lock.Held() && t.job != nil {
		tracker.NoteUntrackedTasks(t.job, s.procfs, environ.NewEnv(os.Environ()), t.run.Step, t.note)
	}
	return t
}

// finish ends the run. It gives up after recordTimeout.
func finish(t *tracking, exit rt.Exit) {
	err := recovery.AtMost(recordTimeout, func() error { return t.end(exit) })
	if errors.Is(err, recovery.ErrLate) {
		err = fmt.Errorf("closing the record took longer than %s: it is left as it is", recordTimeout)
	}
	if err != nil {
		warn(err)
	}
}

// exitOf returns how the command ended. signalled is the last signal that was forwarded.
func exitOf(status unix.WaitStatus, signalled syscall.Signal, now time.Time) rt.Exit {
	e := rt.Exit{Source: "exit", Time: now, Outcome: rt.OutcomeFailed}
	if status.Signaled() {
		e.Code, e.Signal = rt.Some[int64](0), rt.Some(int64(status.Signal()))
		if status.Signal() == signalled {
			e.Outcome = rt.OutcomeCancelled
		}
		return e
	}
	e.Code, e.Signal = rt.Some(int64(status.ExitStatus())), rt.Some[int64](0)
	if status.ExitStatus() == 0 {
		e.Outcome = rt.OutcomeFinished
	}
	return e
}

// rusageEvent returns an event with the resource usage of the whole command from wait4(2), because
// the readings of a short command may miss most. max_process_rss_kib is the largest resident set of
// one process. The kernel also counts the memory that the command shared with this process until
// execve(2) (exec_mmap in fs/exec.c). So a value of at most ownPeak is left out.
func rusageEvent(used *unix.Rusage, ownPeak int64) rt.Event {
	largest := ""
	if used.Maxrss > ownPeak {
		largest = fmt.Sprintf(" max_process_rss_kib=%d", used.Maxrss)
	}
	return rt.Event{
		Kind: "job", Name: "rusage", Status: "ok",
		Detail: fmt.Sprintf("cpu_user_secs=%.3f cpu_system_secs=%.3f%s major_faults=%d",
			float64(used.Utime.Nano())/1e9, float64(used.Stime.Nano())/1e9, largest, used.Majflt),
	}
}

// shellStatus returns the exit status that a shell has after a command with this wait status.
func shellStatus(status unix.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
