package cli

import (
	"errors"
	"fmt"
)

// The exit statuses that all programs share. Those of one program stand with it.
const (
	ExitOK    = 0
	ExitError = 1 // the message says what went wrong
	ExitUsage = 2 // the command line, or a variable, is wrong
)

// ErrUsage marks an error of the command line.
var ErrUsage = errors.New("wrong command line")

// Usage returns an error of the command line.
func Usage(format string, args ...any) error {
	return WithKind(ErrUsage, fmt.Errorf(format, args...))
}

// WithKind returns an error that has the text of err and that errors.Is finds as kind too.
func WithKind(kind, err error) error { return &kindError{kind: kind, err: err} }

type kindError struct{ kind, err error }

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }
