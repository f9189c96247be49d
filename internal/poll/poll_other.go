//go:build go1.27

package poll

import "golang.org/x/sys/unix"

// ppoll is unix.Ppoll: blockingPpoll of poll_runtime.go relies on functions inside the runtime, and is tested
// up to Go 1.26. A newer runtime may expect something else of their callers, and would then fail at
// run time, not in the build.
func ppoll(fds []unix.PollFd, timeout *unix.Timespec) (int, error) {
	return unix.Ppoll(fds, timeout, nil)
}
