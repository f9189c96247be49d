package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/slurm/environ"
	"github.com/resource-tracker/rt/spool"
)

// hesitation is how long a command waits for its spool to say whether another
// task tracks the step already.
const hesitation = time.Second

// turn is the right to track a step of a job on this node: of the tasks that
// "srun -n 64 resource-tracker -- command" starts there, one tracks. The kernel
// ends it with the process.
type turn struct {
	file *os.File // nil where there was nobody to ask
	lost bool     // another task has it
}

// takeTurn asks for the turn where the command is a task of a step and its readings
// go to a spool. What is wrong with the spool is found out by who opens it.
func takeTurn(s settings) turn {
	name := turnName()
	if name == "" || s.spoolDir == "" && !s.anySpool {
		return turn{}
	}
	dir, err := s.findSpool(spool.CheckDir)
	if err != nil {
		return turn{}
	}
	for range 10 { // the file is removed as often as a task that had the turn ends
		t, err := lockTurn(filepath.Join(dir, name))
		if !errors.Is(err, errGone) {
			return t
		}
	}
	return turn{lost: true}
}

// turnName names the step and the node; empty for what is no task of srun. A batch
// script may run many commands at the same time: they are all tracked.
func turnName() string {
	run, err := environ.FromTask(environ.NewEnv(os.Environ()), time.Time{})
	if err != nil {
		return ""
	}
	if _, err := strconv.ParseUint(run.Step, 10, 32); err != nil {
		return ""
	}
	if run.Node == "" {
		run.Node, _ = os.Hostname() // as newRun does
	}
	node := strings.Map(func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}, run.Node)
	return fmt.Sprintf("%d.%s@%s.turn", run.JobID.Or(0), run.Step, node)
}

// errGone: the file was removed before it was locked.
var errGone = errors.New("the file is gone")

// lockTurn takes the lock, or says that another process has it.
func lockTurn(path string) (turn, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return turn{}, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		var held, named os.FileInfo
		if held, err = f.Stat(); err == nil {
			if named, err = os.Lstat(path); err != nil || !os.SameFile(held, named) {
				err = errGone
			}
		}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return turn{lost: errors.Is(err, unix.EWOULDBLOCK)}, err
	}
	return turn{file: f}, nil
}

// Close gives the turn back.
func (t turn) Close() error {
	if t.file == nil {
		return nil
	}
	return errors.Join(os.Remove(t.file.Name()), t.file.Close())
}

// become runs the command in our place. It returns only when that cannot be.
func become(argv []string) error {
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
