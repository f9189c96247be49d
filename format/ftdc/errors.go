package ftdc

import (
	"errors"
	"fmt"
)

var (
	// ErrTime says that a datum is older than the one before, or more than a day
	// newer. Readers of the format take that for a damaged file and stop there.
	ErrTime = errors.New("its time is before that of the datum before it, or more than a day later")
	// ErrName says that a metric's name has no dot: some readers of the format fail on one.
	ErrName = errors.New("a metric's name has no dot; it is <part>.<metric>")
	// ErrNoSchema says that values come before any names.
	ErrNoSchema = errors.New("there is no schema yet: the first byte of a file is 0x01")
)

// SyntaxError says where a file stops being FTDC.
type SyntaxError struct {
	Offset int64 // of the document that cannot be read, in bytes
	Err    error // what is wrong with it
}

// Error names the position and what is wrong there.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("ftdc: the document at byte %d: %v", e.Offset, e.Err)
}

// Unwrap returns what is wrong: io.ErrUnexpectedEOF where the file is cut.
func (e *SyntaxError) Unwrap() error { return e.Err }
