package upload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/resource-tracker/rt/spool"
)

// The kinds of Drain's error, for the exit status of its caller.
var (
	// ErrConfig: the receiver refuses the token, or is not at this address. A retry without a change is useless.
	ErrConfig = errors.New("the configuration is refused")
	// ErrTemporary: some runs were not delivered. They are kept for the next drain.
	ErrTemporary = errors.New("not everything was delivered; what is left is kept for the next drain")
	// ErrDamaged: all was delivered except runs with unreadable spool files.
	ErrDamaged = errors.New("some spool files cannot be read")
)

var errDuplicate = errors.New("a registration got no answer and was sent again: " +
	"the receiver may hold a second run that never ends")

// Kind classifies failed requests by what to do about them.
type Kind uint8

// The kinds of failed requests.
const (
	Temporary    Kind = iota // may succeed when it is sent again
	Permanent                // the same request will be refused again
	Unauthorised             // the token or the credentials were refused
	Misdirected              // the address is wrong: the server did nothing of any request
)

// Error is a failed request to the receiver or to its object store. Its text never contains
// a token or credentials.
type Error struct {
	Op         string        // what was tried, on what: "POST https://host/runs"
	Kind       Kind          // what to do about it
	Status     int           // HTTP status; 0 when no answer came
	Code       string        // S3's code of the error; empty for none
	RetryAfter time.Duration // of the answer; 0 for none
	Unsent     bool          // no connection was made: the other side did not receive the request
	Undone     bool          // the receiver itself reports that it did nothing, see HeaderUndone
	Own        bool          // the answer has the shape of the API's errors, so it is not a gateway's
	Err        error         // what went wrong
}

// Error implements error.
func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// refused reports whether the other side answered that it did nothing, or did not receive
// the request. After a lost answer or a gateway's error it may have acted.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	isRefusal := e.Status >= 300 && e.Status < 500 && e.Status != http.StatusRequestTimeout
	return e.Unsent || e.Undone || isRefusal
}

// HeaderUndone marks an answer of the receiver that did nothing of the request and will do
// it later. A proxy's 503 lacks it, even with Retry-After: a cache sends one when the
// receiver took too long, and the receiver may have acted.
const HeaderUndone = "Resource-Tracker-Undone"

// BadStatus returns the Error of an answer whose status means failure. text comes from Excerpt:
// limited in length and without secrets.
func BadStatus(op string, resp *http.Response, text string) *Error {
	e := &Error{Op: op, Kind: statusKind(resp.StatusCode), Status: resp.StatusCode}
	e.Undone = resp.Header.Get(HeaderUndone) != ""
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	what := strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode)
	if at, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		what += " to " + Excerpt([]byte(at.Scheme+"://"+at.Host)) + ": redirects are not followed; set the endpoint to where the service is"
	}
	if text != "" {
		what += ": " + text
	}
	e.Err = errors.New(what)
	if speaksHTTPS(resp, text) {
		e.Kind, e.Err = Misdirected, otherScheme(resp.Request.URL.Host, "https", e.Err)
	}
	return e
}

func statusKind(status int) Kind {
	switch {
	case status == http.StatusUnauthorized:
		return Unauthorised
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status == http.StatusTooEarly:
		return Temporary
	case status >= 500 && status != http.StatusNotImplemented:
		return Temporary
	}
	return Permanent
}

// retryAfter parses the header of RFC 9110, section 10.2.3: seconds or a date.
func retryAfter(v string, now time.Time) time.Duration {
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}

// maxExcerpt is the maximum number of bytes of an answer that an error message quotes.
const maxExcerpt = 512

// Excerpt returns a part of an answer for an error message: one line of at most 512 bytes of
// printable text. Secrets are redacted.
func Excerpt(body []byte, secrets ...string) string {
	s := strings.ToValidUTF8(string(body), "?")
	for _, secret := range secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxExcerpt {
		s = strings.ToValidUTF8(s[:maxExcerpt], "") + "..." // without a part of a character
	}
	return s
}

// spoolError is an error of reading or writing a run in the spool.
type spoolError struct {
	op      string
	damaged bool // reading failed, and a retry would not help
	err     error
}

func (e *spoolError) Error() string { return e.op + ": " + e.err.Error() }
func (e *spoolError) Unwrap() error { return e.err }

func unreadable(op string, err error) error { return &spoolError{op: op, damaged: true, err: err} }

// unwritable returns nil if err is nil.
func unwritable(op string, err error) error {
	if err == nil {
		return nil
	}
	return &spoolError{op: op, err: err}
}

func isDamaged(err error) bool {
	var s *spoolError
	return errors.As(err, &s) && s.damaged && !isBusy(err) && !spool.IsIntact(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// isBusy reports whether another process has locked the run's file.
func isBusy(err error) bool { return errors.Is(err, spool.ErrBusy) }

func isKind(err error, k Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == k
}

func hasStatus(err error, statuses ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains(statuses, e.Status)
}

// isOwn reports whether the API itself answered with one of the statuses.
func isOwn(err error, statuses ...int) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Own && slices.Contains(statuses, e.Status)
}

// stopped is the cause with which a drain ends early.
type stopped struct {
	kind error // ErrConfig or ErrTemporary
	err  error
}

func (s *stopped) Error() string   { return fmt.Sprintf("%v: %v", s.kind, s.err) }
func (s *stopped) Unwrap() []error { return []error{s.kind, s.err} }
