package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/tracker"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// stepLockTimeout is how long a command waits for its spool to report whether another
// task tracks the step already.
const stepLockTimeout = time.Second

// acquireStepLock takes the lock of the step if the command is one of its tasks and its
// readings go to a spool. An error of the spool is reported later, when it is opened.
func acquireStepLock(s settings) tracker.StepLock {
	run, err := environ.FromTask(environ.NewEnv(os.Environ()), time.Time{})
	if err != nil {
		return tracker.StepLock{}
	}
	if run.Node == "" {
		run.Node, _ = os.Hostname() // as newRun does
	}
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

// execCommand replaces this process by the command. It returns only when that fails.
func execCommand(argv []string) error {
	path, err := look(argv[0])
	if err != nil {
		return err
	}
	err = syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) { // as in start
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, argv[1:]...), os.Environ())
	}
	return cli.WithKind(errNotExecutable, fmt.Errorf("%s: cannot be executed: %w", argv[0], err))
}
