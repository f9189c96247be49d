package perf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The statuses of events that cannot be counted.
const (
	NotSupported = "not supported" // this machine or its kernel does not have the event
	Denied       = "denied"        // perf_event_paranoid and the capabilities forbid it
	Busy         = "busy"          // another process uses the counters
	Failed       = "failed"
)

// StatusError is the reason why an event is not counted, with its status.
type StatusError struct {
	Word string // one of the statuses
	Err  error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

// Status returns Word, which is the status in the ledger.
func (e *StatusError) Status() string { return e.Word }

func unsupported(format string, args ...any) error {
	return &StatusError{NotSupported, fmt.Errorf(format, args...)}
}

// openError explains an error of perf_event_open(2).
func openError(event string, cpu int, err error) error {
	word := Failed
	hint := ""
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		word, hint = NotSupported, ": the CPU or its kernel does not have this event"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		word, hint = Denied, ": it requires CAP_PERFMON, or kernel.perf_event_paranoid below 1; Debian's and Ubuntu's kernels require CAP_SYS_ADMIN if that is above 2: set it to 2"
	case errors.Is(err, unix.EBUSY):
		word, hint = Busy, ": another program uses the counter"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		hint = ": each event of each CPU takes a descriptor; configure fewer"
	}
	return &StatusError{word, fmt.Errorf("count %s on CPU %d%s: %w", event, cpu, hint, err)}
}
