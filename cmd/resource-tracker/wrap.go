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
)

// patience is how long a command that has ended waits for its record: for the last
// reading, and once more for the spool's end. A disk that hangs costs no more.
const patience = 5 * time.Second

// wrap runs the command, tracks it, and ends as it ends. Tracking never keeps the
// command from running: what is wrong with it is a warning.
func wrap(s settings) error {
	turns := make(chan turn, 1)
	go func() {
		defer recovery.Handle(func(err error) { warn(err); turns <- turn{} })
		turns <- takeTurn(s)
	}()
	select {
	case mine := <-turns:
		if mine.lost && s.output == "" {
			return become(s.command) // nothing has been set up: the command is as if we were not there
		}
		turns <- mine
	case <-time.After(hesitation): // a disk that hangs keeps no command from running
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write says EPIPE; the command outlives our reader
	started := time.Now()
	child, err := start(s.command)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var begun atomic.Pointer[tracking]
	recorded := make(chan *tracking, 1)
	go func() { recorded <- follow(ctx, s, turns, newRunOf(s, child.pid, started), &begun) }()

	child.wait()
	cancel(collect.ErrCommandEnded)
	var t *tracking
	select {
	case t = <-recorded: // the last reading saw what the command had used
	case <-time.After(patience):
		warn(fmt.Errorf("the last reading took longer than %s: the record is not complete", patience))
	}
	leaving, left := takeLeave() // before signals are no longer the command's
	defer left()
	status, used, told := child.reap()
	soon, cancelSoon := context.WithTimeout(leaving, patience)
	defer cancelSoon()
	if t != nil {
		t.note(rusageEvent(&used, time.Now()))
		finish(t, exitOf(status, told, time.Now()))
		t.deliver(leaving)
	} else if t = begun.Load(); t != nil {
		t.abandon()
	}
	if t != nil {
		t.print(soon)
	}
	if code := shellStatus(status); code != 0 {
		return commandStatus(code)
	}
	return nil
}

// newRunOf delays what newRun asks of the system until the command runs.
func newRunOf(s settings, pid int, started time.Time) func() rt.Run {
	return func() rt.Run { return newRun(s, pid, started) }
}

// follow tracks until ctx is done, if it is its turn. It returns nil where nothing could be tracked,
// or not to the end; begun is set in the latter case too.
func follow(ctx context.Context, s settings, turns <-chan turn, run func() rt.Run, begun *atomic.Pointer[tracking]) (t *tracking) {
	defer recovery.Handle(func(err error) {
		warn(fmt.Errorf("the command is no longer tracked: %w", err))
		t = nil
	})
	mine := <-turns
	if mine.lost {
		s.spoolDir, s.anySpool = "", false
		s.listen, s.connect = nil, nil // the winner of this node does that
		if s.output == "" {
			return nil
		}
	}
	t, err := track(s, run(), warn, warn)
	if err != nil {
		warn(fmt.Errorf("the command runs untracked: %w", errors.Join(err, mine.Close())))
		return nil
	}
	t.turn = mine
	begun.Store(t)
	t.record(ctx)
	t.noteOthers(s.procfs)
	return t
}

// finish closes the record, within bounds.
func finish(t *tracking, exit rt.Exit) {
	done := make(chan error, 1)
	go func() {
		defer recovery.Handle(func(err error) { done <- err })
		done <- t.end(exit)
	}()
	select {
	case err := <-done:
		if err != nil {
			warn(err)
		}
	case <-time.After(patience):
		warn(fmt.Errorf("closing the record took longer than %s: it is left as it is", patience))
	}
}

// exitOf says how the command ended. told is the last signal that we passed on.
func exitOf(status unix.WaitStatus, told syscall.Signal, now time.Time) rt.Exit {
	e := rt.Exit{Source: "exit", Time: now, Outcome: rt.OutcomeFailed}
	switch {
	case status.Signaled():
		e.Code, e.Signal = rt.Some[int64](0), rt.Some(int64(status.Signal()))
		if status.Signal() == told {
			e.Outcome = rt.OutcomeCancelled
		}
	default:
		e.Code, e.Signal = rt.Some(int64(status.ExitStatus())), rt.Some[int64](0)
		if status.ExitStatus() == 0 {
			e.Outcome = rt.OutcomeFinished
		}
	}
	return e
}

// rusageEvent is what the kernel counted of the command, wait4(2): all of it, where
// readings that are an interval apart see little of a short one. Its memory is the
// most that one of its processes had resident, not the most of all together.
func rusageEvent(used *unix.Rusage, now time.Time) rt.Event {
	return rt.Event{
		Time: now, Kind: "job", Name: "rusage", Status: "ok",
		Detail: fmt.Sprintf("cpu_user_secs=%.3f cpu_system_secs=%.3f max_process_rss_kib=%d major_faults=%d",
			float64(used.Utime.Nano())/1e9, float64(used.Stime.Nano())/1e9, used.Maxrss, used.Majflt),
	}
}

// shellStatus is the exit status that a shell gives for a command.
func shellStatus(status unix.WaitStatus) int {
	if status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return status.ExitStatus()
}
