package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/printable"
)

// Kinds of errors, next to Error.
var (
	ErrUnreachable = errors.New("no answer")
	ErrAnswer      = errors.New("the answer is not that of a site service")
	ErrCredential  = errors.New("cannot make a MUNGE credential")
	// ErrNotArrived: a look at a job makes its nodes send the readings.
	ErrNotArrived = errors.New("the site knows only its current figures, which rt-job shows; its readings arrive within 2 minutes: try again")
)

// Error is a refusal of the service.
type Error struct {
	Status     int
	Detail     string        // from the answer; printable, may be empty
	RetryAfter time.Duration // how long the service asks to wait; 0: it does not
}

// maxDetail limits the answer that is read for an Error, in bytes.
const maxDetail = 4 << 10

// maxWait is the longest Retry-After that a Client reads from an answer.
const maxWait = 24 * time.Hour

func refused(resp *http.Response) error {
	e := &Error{Status: resp.StatusCode}
	isBusy := e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	if isBusy {
		e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDetail))
	var answer struct{ Detail string }
	if err == nil && json.Unmarshal(text, &answer) == nil {
		e.Detail = printable.Text(answer.Detail)
	}
	return e
}

// retryAfter returns the seconds of the header; 0 for another form.
func retryAfter(text string) time.Duration {
	secs, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(secs)*time.Second, maxWait)
}

// Error says what the status means for the user.
func (e *Error) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	switch {
	case e.Status == http.StatusUnauthorized:
		text = "it does not know who asks (401): check site.token_file or munged of this machine, and serve.munge or serve.read_token_file of the site"
	case e.Status == http.StatusForbidden:
		text = "this user may not read runs there (403)"
	case e.Status == http.StatusNotFound:
		text = "it does not have this, or this user may not see it (404)"
	case e.Status == http.StatusGone:
		text = "it has removed this at the end of its retention (410)"
	case e.RetryAfter > 0:
		text = fmt.Sprintf("it is busy (%d): retry in %v", e.Status, e.RetryAfter)
	case e.Status == http.StatusTooManyRequests:
		text = "it is busy (429): retry later"
	case e.Status >= 500:
		text = fmt.Sprintf("it has failed (%d): its log has the reason", e.Status)
	case e.Status >= 300 && e.Status < 400:
		text = fmt.Sprintf("it redirects (%d), which is not followed: set site.url to the final address", e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// IsNotFound reports whether the service does not have what was asked for, or the reader may not see it.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound
}

// IsTemporary reports whether a later request can succeed.
func IsTemporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status == http.StatusTooManyRequests || e.Status >= 500
	}
	return errors.Is(err, ErrUnreachable)
}
