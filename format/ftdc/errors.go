package ftdc

import (
	"errors"
	"fmt"
)

var (
	// ErrTime reports a datum that is older than the previous one, or more than a day newer.
	// Readers of the format take that for a damaged file and stop there.
	ErrTime = errors.New("its time is before that of the previous datum, or more than a day later")
	// ErrName reports the name of a metric without a dot: some readers of the format fail on it.
	ErrName = errors.New("the name of a metric needs a dot: <part>.<metric>")
	// ErrNoSchema reports values before the first schema.
	ErrNoSchema = errors.New("there is no schema yet: the first byte of a file is 0x01")
)

// SyntaxError has the place where a file is not FTDC any more.
type SyntaxError struct {
	Offset int64 // of the document that cannot be read, in bytes
	Err    error // what is wrong with it
}

// Error names the position and the cause.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("ftdc: the document at byte %d: %v", e.Offset, e.Err)
}

// Unwrap returns the cause: io.ErrUnexpectedEOF if the file is cut.
func (e *SyntaxError) Unwrap() error { return e.Err }
