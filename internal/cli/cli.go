// Package cli is what the command lines of the programs share: the layout of the help,
// errors with their exit statuses, JSON output and the check for a terminal.
package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Width is how wide a line of help is at most, in characters.
const Width = 80

// Fold breaks text between its words into lines of at most Width characters, where no
// word is longer. The first begins in the column first, the others in the column next.
func Fold(text string, first, next int) string {
	var out strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+width > Width:
			out.WriteString("\n" + strings.Repeat(" ", next))
			at = next
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}

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
