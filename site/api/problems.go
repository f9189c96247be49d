package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/site"
)

// HeaderUndone is set in the answer to a request that changed nothing and may be repeated.
const HeaderUndone = "Resource-Tracker-Undone"

// retryFull is the Retry-After of a request for which there is no space. The drain that gets it
// leaves the run to the next drain.
const retryFull = 5 * time.Minute

// retryNewer is the Retry-After of a record that a newer version of rt wrote.
const retryNewer = 5 * time.Minute

// retryAway is the Retry-After of a request while the database cannot be reached.
const retryAway = 10 * time.Second

// retryReport is the Retry-After of a report while others are made.
const retryReport = 5 * time.Second

// errClientGone means that an answer cannot be sent: the client has closed the connection, or reads it too
// slowly.
var errClientGone = errors.New("the client does not read the answer")

// reply writes a JSON answer.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has closed the connection
}

// replyText answers with a JSON text.
func replyText(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client has closed the connection
}

// problems answers requests with errors.
type problems struct {
	fault func(error) // Config.Fault
}

// failWith answers with the error as JSON: {"detail": "..."}.
func (s problems) failWith(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemOf(err)
	answeredOf(r).Refusal = p.detail
	p.header(w.Header())
	reply(w, p.status, map[string]string{"detail": p.detail})
}

// problem is an error with the status of its answer and, for S3, its code.
type problem struct {
	status       int
	code, detail string
	retry        time.Duration // when the client may send it again, in Retry-After; 0 for no such header
	undone       bool          // the request changed nothing: HeaderUndone
}

func (p *problem) Error() string { return p.detail }

// header writes the fields of the problem that are headers.
func (p *problem) header(h http.Header) {
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.undone {
		h.Set(HeaderUndone, "1")
	}
}

func refuse(status int, format string, args ...any) error {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

func errNoRun() error {
	return &problem{status: http.StatusNotFound, code: "NoSuchKey", detail: "there is no such run"}
}

// problemOf returns the answer to an error: its own, or the answer for an error of the registry. An
// error that is not the client's is a 500, and its text goes to Config.Fault only.
func (s problems) problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, site.ErrNotFound):
		p, _ := errors.AsType[*problem](errNoRun())
		return p
	case errors.Is(err, site.ErrCursor):
		return &problem{status: http.StatusBadRequest, detail: err.Error()}
	case errors.Is(err, site.ErrFinished):
		return &problem{status: http.StatusConflict, detail: site.ErrFinished.Error()}
	case errors.Is(err, site.ErrOlder):
		return &problem{status: http.StatusConflict, detail: err.Error()}
	case errors.Is(err, site.ErrMissing):
		return &problem{status: http.StatusUnprocessableEntity, detail: err.Error()}
	case errors.Is(err, site.ErrTooMany):
		return &problem{status: http.StatusRequestEntityTooLarge, detail: err.Error()}
	case errors.Is(err, site.ErrQuota):
		return &problem{
			status: http.StatusInsufficientStorage, code: "InsufficientStorage", retry: retryFull, undone: true,
			detail: "no room for this request: " + err.Error() + "; there is room again when old runs are removed",
		}
	case isFull(err):
		return &problem{
			status: http.StatusInsufficientStorage, code: "InsufficientStorage", retry: retryFull,
			detail: "the receiver's disk is full; it accepts data when there is room",
		}
	case errors.Is(err, site.ErrAway):
		s.fault(err)
		return &problem{
			status: http.StatusServiceUnavailable, code: "ServiceUnavailable", retry: retryAway,
			detail: "the receiver cannot reach its database or its object store now; its log has the error",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, errClientGone): // no fault of the receiver
	default:
		s.fault(err)
	}
	return &problem{
		status: http.StatusInternalServerError, code: "InternalError",
		detail: "the receiver cannot write or read its store; its log has the error",
	}
}

// isFull reports whether an error says that a disk, or the disk quota of the user, is full.
func isFull(err error) bool {
	return errors.Is(err, site.ErrFull) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// isRefused reports whether an error of the registry says that it has changed nothing. After another
// error the change may be durable.
func isRefused(err error) bool {
	if errors.Is(err, site.ErrUnclear) {
		return false
	}
	for _, refusal := range []error{site.ErrNotFound, site.ErrFinished, site.ErrOlder, site.ErrMissing, site.ErrTooMany, site.ErrQuota, site.ErrFull} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
