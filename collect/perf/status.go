package perf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The statuses of counters that cannot be had.
const (
	NotSupported = "not supported" // this machine or its kernel does not count that
	Denied       = "denied"        // perf_event_paranoid and the capabilities do not let us
	Busy         = "busy"          // somebody else has the counters
	Failed       = "failed"
)

// StatusError says why something is not counted, in a word and at length.
type StatusError struct {
	Word string // one of the statuses
	Err  error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// Status is what the ledger calls it.
func (e *StatusError) Status() string { return e.Word }

func unsupported(format string, args ...any) error {
	return &StatusError{NotSupported, fmt.Errorf(format, args...)}
}

// openError tells what perf_event_open(2) means.
func openError(event string, cpu int, err error) error {
	word := Failed
	hint := ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		word, hint = NotSupported, ": the CPU or its kernel does not count that"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		word, hint = Denied, ": it takes CAP_PERFMON, or kernel.perf_event_paranoid below 1; Debian's and Ubuntu's kernels want CAP_SYS_ADMIN while that is above 2: set it to 2"
	case errors.Is(err, unix.EBUSY):
		word, hint = Busy, ": another program has the counter"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		hint = ": each event of each CPU takes a descriptor; configure fewer"
	}
	return &StatusError{word, fmt.Errorf("count %s on CPU %d%s: %w", event, cpu, hint, err)}
}
