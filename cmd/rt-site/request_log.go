package main

import (
	"cmp"
	"fmt"
	"log"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site/api"
)

// requestLog writes the access log, and refused requests to the log of the service.
type requestLog struct {
	path string // of the access log; empty: none
	log  *sparseLog
}

func newRequestLog(path string, logger *log.Logger) (*requestLog, error) {
	if path != "" {
		if err := appendLine(path, ""); err != nil {
			return nil, fmt.Errorf("serve.access_log: %w", err)
		}
	}
	return &requestLog{path, newSparseLog(logger)}, nil
}

// write logs a request.
func (l *requestLog) write(a *api.Answered) {
	if l.path != "" {
		if err := appendLine(l.path, accessLine(a)); err != nil {
			l.log.note("serve.access_log", fmt.Sprintf("a request is not logged: %v", err))
		}
	}
	switch a.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		l.log.note(fmt.Sprintf("refused %s: %d %s", a.Network, a.Status, reasonOf(a)), fmt.Sprintf("%q of %s", a.Method+" "+a.URI, nameOf(a)))
	}
}

// maxReason limits a reason, in bytes: it can have a text of the client.
const maxReason = 200

func reasonOf(a *api.Answered) string {
	reason := cmp.Or(a.Refusal, http.StatusText(a.Status))
	return printable.Text(reason[:min(len(reason), maxReason)])
}

// plainName matches names that need no quotes in a line.
var plainName = regexp.MustCompile(`^[A-Za-z0-9._:@+$-]+$`)

func nameOf(a *api.Answered) string {
	switch {
	case a.Sender == "":
		return "-"
	case plainName.MatchString(a.Sender):
		return a.Sender
	}
	return strconv.Quote(a.Sender)
}

// accessLine returns the line of a request in the Common Log Format, and how many seconds it took.
func accessLine(a *api.Answered) string {
	return fmt.Sprintf("%s - %s [%s] %s %d %d %.3f\n", a.Client, nameOf(a), a.Begin.Format("02/Jan/2006:15:04:05 -0700"),
		strconv.Quote(strings.Join([]string{a.Method, a.URI, a.Proto}, " ")), a.Status, a.Bytes, a.Duration.Seconds())
}

// appendLine appends a line to a file in one write. It opens the file each time, so that it can be rotated.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return cmp.Or(err, f.Close())
}
