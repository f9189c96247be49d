package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
)

// alone samples until it is told to stop, which is how it ends well (T-EOR-01).
func alone(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), heard(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write says EPIPE instead of ending us before the spool is closed
	ctx, give := context.WithCancel(ctx)
	defer give()
	broken := make(chan error, 1)

	if s.pid != 0 {
		if _, err := os.Stat(filepath.Join(s.procfs, strconv.Itoa(s.pid))); err != nil {
			warn(fmt.Errorf("there is no process %d to track: what it and its children use is null (%w)", s.pid, err))
		}
	}
	t, err := track(s, newRun(s, s.pid, time.Now()), func(err error) { broken <- err; give() }, warn)
	if err != nil {
		return err
	}
	t.record(ctx)
	leaving, left := takeLeave()
	defer left()
	soon, cancel := context.WithTimeout(leaving, patience)
	defer cancel()
	err = t.end(rt.Exit{Outcome: rt.OutcomeFinished, Source: "exit", Time: time.Now()})
	t.deliver(leaving)
	t.print(soon)
	select {
	case e := <-broken:
		if !errors.Is(e, syscall.EPIPE) { // whoever reads has seen enough
			err = errors.Join(err, e)
		}
	default:
	}
	return err
}

// heard leaves out the signals that were ignored when we were started (nohup);
// SIGTERM is always heard.
func heard(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool {
		return s != syscall.SIGTERM && signal.Ignored(s)
	})
}

// warn tells of what does not keep us from going on.
func warn(err error) { tell(fmt.Sprintf("resource-tracker: warning: %v\n", err)) }

// tell writes a message to standard error, which may be a full pipe that nobody
// reads: that does not keep us from going on either.
func tell(message string) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		defer recovery.Handle(func(error) {}) // there is nobody else to tell
		_, _ = os.Stderr.WriteString(message) // nor that it cannot be told
	}()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
}
