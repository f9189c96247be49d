package hook

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	fewestDescriptors = 32   // enough for a hook
	raisedDescriptors = 1024 // for the hook and its tracker, if the limit is lower than fewestDescriptors
)

// hasDescriptors checks the limit on open files (RLIMIT_NOFILE), and raises it if it is too low and
// the process may raise it. At its first timer the Go runtime opens two descriptors, and ends the
// program with status 2 if that fails. It has already raised the soft limit to the hard limit.
func hasDescriptors() bool {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	isEnough := err != nil || limit.Cur >= fewestDescriptors
	return isEnough || unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: raisedDescriptors, Max: raisedDescriptors}) == nil
}

// printFewDescriptors prints the error to standard error, because a log would need a descriptor.
func printFewDescriptors(program string) {
	_, _ = syscall.Write(2, []byte(program+": error: the limit on open files is less than 32 and cannot be raised: nothing was done\n"))
}
