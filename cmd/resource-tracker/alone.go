package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// alone samples until it is told to stop, which is how it ends well (T-EOR-01).
func alone(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), heard(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write says EPIPE instead of ending us before the spool is closed
	ctx, give := context.WithCancelCause(ctx)
	defer give(nil)

	t, err := track(s, newRun(s, s.pid, time.Now()), give, warn)
	if err != nil {
		return err
	}
	t.record(ctx)
	err = context.Cause(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, syscall.EPIPE) {
		err = nil // we were told to stop, or whoever reads has seen enough
	}
	leaving, left := takeLeave()
	defer left()
	err = errors.Join(err, t.end(rt.Exit{Outcome: rt.OutcomeFinished, Source: "exit", Time: time.Now()}))
	t.deliver(leaving)
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
func warn(err error) { fmt.Fprintf(os.Stderr, "resource-tracker: warning: %v\n", err) }
