package main

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// fewestDescriptors is the limit on open files (RLIMIT_NOFILE) below which nothing is tracked. At
// its first timer the Go runtime opens two descriptors, and it ends the program if that fails.
const fewestDescriptors = 32

var errFewDescriptors = errors.New("the limit on open files is less than 32: raise it (ulimit -n)")

// hasDescriptors checks the limit. The Go runtime has already raised the soft limit to the hard limit.
func hasDescriptors() bool {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return err != nil || limit.Cur >= fewestDescriptors
}

// runUntracked executes the command in this process. Before, it prints a warning, unless standard
// error would block. It returns only if it cannot execute the command.
func runUntracked(command []string) error {
	stderr := []unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
	if n, err := unix.Poll(stderr, 0); n > 0 && err == nil {
		_, _ = syscall.Write(2, []byte("resource-tracker: warning: the command runs untracked: "+errFewDescriptors.Error()+"\n"))
	}
	return execCommand(command)
}
