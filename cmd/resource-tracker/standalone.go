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
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/recovery"
)

// standalone samples until a signal, and then returns nil (T-EOR-01).
func standalone(s settings) error {
	ctx, stop := signal.NotifyContext(context.Background(), notIgnored(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)...)
	defer stop()
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writes return EPIPE; the signal would end us before the spool is closed
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := make(chan error, 1)

	if s.pid != 0 {
		if _, err := os.Stat(filepath.Join(s.procfs, strconv.Itoa(s.pid))); err != nil {
			warn(fmt.Errorf("there is no process %d to track: the figures of its tree are null (%w)", s.pid, err))
		}
	}
	t, err := track(s, newRun(s, s.pid, time.Now()), func(err error) { broken <- err; cancel() }, warn)
	if err != nil {
		return err
	}
	t.rec.Run(ctx)
	shutdown, stopShutdown := shutdownContext()
	defer stopShutdown()
	soon, cancelSoon := context.WithTimeout(shutdown, recordTimeout)
	defer cancelSoon()
	err = t.end(rt.Exit{Outcome: rt.OutcomeFinished, Source: "exit", Time: time.Now()})
	t.deliver(shutdown)
	t.print(soon)
	select {
	case e := <-broken:
		if !errors.Is(e, syscall.EPIPE) { // the reader has closed the pipe
			err = errors.Join(err, e)
		}
	default:
	}
	return err
}

// notIgnored leaves out signals that were ignored at our start (nohup), except SIGTERM.
func notIgnored(signals ...os.Signal) []os.Signal {
	return slices.DeleteFunc(slices.Clone(signals), func(s os.Signal) bool {
		return s != syscall.SIGTERM && signal.Ignored(s)
	})
}

// warn prints an error after which the tracking goes on.
func warn(err error) { printMessage(fmt.Sprintf("resource-tracker: warning: %v\n", err)) }

// printMessage writes to standard error, which may be a full pipe: it waits a second at most.
func printMessage(message string) {
	message = printable.Lines(message) + "\n"
	_ = recovery.AtMost(time.Second, func() error { // there is no other place to report it
		_, err := os.Stderr.WriteString(message)
		return err
	})
}
