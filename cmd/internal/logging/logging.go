// Package logging writes the messages of hooks and trackers to syslog or to a file, one
// line each. It never fails: a message that one place does not accept goes to the next. It
// writes to no FIFO or terminal, which can make a writer wait. Places.Async is for callers
// that must not wait for a dead file system either.
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

	"github.com/resource-tracker/rt/internal/printable"
)

// The places of messages.
const (
	Syslog       = "syslog"          // as a target: the system's log
	DevLog       = "/dev/log"        // the socket of the system's log
	FallbackFile = "/var/log/rt.log" // used if there is no such socket
)

// Places are where the messages of a Logger go.
type Places struct {
	Program  string    // "rt-prolog"
	Target   string    // Syslog, or the path of a file
	DevLog   string    // the socket of syslog
	Fallback string    // file for messages that the target does not accept
	Last     io.Writer // for messages that the fallback does not accept either; nil: they are lost
	Async    bool      // calls do not wait until their message is written; Close ends the writer
}

// Logger is a slog.Logger. It can write its messages in the background.
type Logger struct {
	*slog.Logger
	queue *queue // nil: messages are written at once
}

// New returns a logger. It opens nothing: each message opens its place, so that log
// rotation and a restart of syslog need no signal.
func New(opts Places) *Logger {
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
	opts   Places
	pid    int
	queue  *queue
	prefix string // values of the logger's attributes, each with a colon: "job 12@n1: "
}

// message is the content of one line.
type message struct {
	at    time.Time
	level slog.Level
	text  string
	isEnd bool // no message: the writer of a queue ends
}

func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle writes the logger's attributes, the text, and the call's attributes as name=value.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	m := message{at: r.Time, level: r.Level, text: h.prefix + r.Message}
	r.Attrs(func(a slog.Attr) bool {
		m.text += " " + a.String()
		return true
	})
	if h.queue != nil {
		h.queue.putMessage(m)
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

// maxLine limits a message, in bytes; syslog daemons cut at 2048 to 8192.
const maxLine = 2000

// oneLine joins the lines of errors and replaces what is not printable.
func oneLine(text string) string {
	text = printable.Text(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// toSyslog sends one datagram in the form of syslog(3) of the C library.
func (h handler) toSyslog(now time.Time, severity int, text string) error {
	const facilityDaemon = 3 << 3
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	packet := fmt.Sprintf("<%d>%s %s[%d]: %s", facilityDaemon|severity, now.Format(time.Stamp), h.opts.Program, h.pid, text)
	to := &syscall.SockaddrUnix{Name: h.opts.DevLog}
	// A slow daemon gets 10 ms; a job must not wait longer.
	for range 5 {
		err = syscall.Sendto(fd, []byte(packet), syscall.MSG_NOSIGNAL, to)
		if !errors.Is(err, syscall.EAGAIN) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return os.NewSyscallError("sendto", err)
}

// OpenFile opens or creates a log file for appending. It refuses what can make a writer wait, a
// FIFO or a terminal. It follows no link, because a user could link to any file of root.
func OpenFile(path string) (*os.File, error) {
	if path == "" {
		return nil, os.ErrNotExist
	}
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_NOCTTY
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !isNull(info) {
		err = fmt.Errorf("%s is neither a regular file nor %s: no log goes there", path, os.DevNull)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// isNull reports whether a file is the null device, under any name.
func isNull(info os.FileInfo) bool {
	const null = 1<<8 | 3 // device 1:3, see null(4)
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeCharDevice != 0 && stat.Rdev == null
}

// appendLine appends a line in one write, so that lines of several programs do not mix.
func appendLine(path, line string) error {
	f, err := OpenFile(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
