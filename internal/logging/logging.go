// Package logging writes the messages of hooks, trackers and cron jobs to syslog
// or to a file, one line each. It never fails: what cannot be logged at one place
// goes to the next. It writes to nothing that makes a writer wait by design, such
// as a FIFO; who cannot wait for a dead file system either takes Options.Async.
package logging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"
)

// The places that messages go to.
const (
	Syslog       = "syslog"          // as a target: the system's log
	DevLog       = "/dev/log"        // the socket of the system's log
	FallbackFile = "/var/log/rt.log" // used where there is no such socket
)

// Options say where a Logger writes.
type Options struct {
	Program  string    // "rt-prolog"
	Target   string    // Syslog, or the path of a file
	DevLog   string    // the socket of syslog
	Fallback string    // a file that is used where the target cannot be
	Last     io.Writer // used where the fallback cannot be either; nil: such messages are lost
	Async    bool      // no call waits for its message to be written; end with Close
}

// Logger is a slog.Logger whose messages may be written in the background.
type Logger struct {
	*slog.Logger
	queue *queue // nil: messages are written at once
}

// New returns a logger. It opens nothing: each message opens what it needs, so
// that log rotation and a restart of syslog need no care.
func New(opts Options) *Logger {
	h := handler{opts: opts, pid: os.Getpid()}
	if opts.Async {
		h.queue = newQueue(h.write)
	}
	return &Logger{slog.New(h), h.queue}
}

// Close waits until the messages of an asynchronous logger are written, at most
// for the given time, and reports whether they are. No message may follow.
func (l *Logger) Close(wait time.Duration) bool {
	return l.queue == nil || l.queue.close(wait)
}

// handler is the slog.Handler of a Logger.
type handler struct {
	opts   Options
	pid    int
	queue  *queue
	prefix string // values of the logger's attributes, each with a colon: "job 12@n1: "
}

// message is the content of one line.
type message struct {
	at    time.Time
	level slog.Level
	text  string
}

func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle writes a message: the logger's attributes, the text and the attributes of the
// call as name=value.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	m := message{r.Time, r.Level, h.prefix + r.Message}
	r.Attrs(func(a slog.Attr) bool {
		m.text += " " + a.String()
		return true
	})
	if h.queue != nil {
		h.queue.put(m)
	} else {
		h.write(m)
	}
	return nil
}

// WithAttrs returns a handler that writes the values before each text.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if value := a.Value.String(); value != "" {
			h.prefix += value + ": "
		}
	}
	return h
}

// WithGroup returns the handler itself: lines have no groups.
func (h handler) WithGroup(string) slog.Handler { return h }

// severity returns the name and the number of a level in syslog(3).
func severity(level slog.Level) (name string, number int) {
	switch {
	case level >= slog.LevelError:
		return "error", 3
	case level >= slog.LevelWarn:
		return "warning", 4
	}
	return "info", 6
}

// write writes one line to the first place that accepts it.
func (h handler) write(m message) {
	name, number := severity(m.level)
	text := oneLine(name + ": " + m.text)
	line := fmt.Sprintf("%s %s[%d]: %s\n", m.at.Format("2006-01-02T15:04:05.000Z07:00"), h.opts.Program, h.pid, text)
	if h.opts.Target == Syslog {
		if h.toSyslog(m.at, number, text) == nil {
			return
		}
	} else if appendLine(h.opts.Target, line) == nil {
		return
	}
	if appendLine(h.opts.Fallback, line) == nil {
		return
	}
	if h.opts.Last != nil {
		_, _ = io.WriteString(h.opts.Last, line) // no place is left for this error
	}
}

// maxLine bounds a message in bytes; syslog daemons cut at 2048 to 8192.
const maxLine = 2000

// oneLine makes a message one line: joined errors have several, and a name from
// outside may hold anything.
func oneLine(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// toSyslog sends one datagram in the form that syslog(3) of the C library sends.
func (h handler) toSyslog(now time.Time, severity int, text string) error {
	const facilityDaemon = 3 << 3
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	packet := fmt.Sprintf("<%d>%s %s[%d]: %s", facilityDaemon|severity, now.Format(time.Stamp), h.opts.Program, h.pid, text)
	to := &syscall.SockaddrUnix{Name: h.opts.DevLog}
	// A daemon that does not keep up gets a moment, but a job must not wait for it.
	for range 5 {
		if err = syscall.Sendto(fd, []byte(packet), syscall.MSG_NOSIGNAL, to); !errors.Is(err, syscall.EAGAIN) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return os.NewSyscallError("sendto", err)
}
