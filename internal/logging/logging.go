// Package logging writes the messages of hooks, trackers and cron jobs to syslog
// or to a file, one line each. It never fails: what cannot be logged at one place
// goes to the next. It writes to nothing that makes a writer wait by design, such
// as a FIFO; who cannot wait for a dead file system either takes Options.Async.
package logging

import (
	"errors"
	"fmt"
	"io"
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

// Logger writes messages. Its methods may be called by several goroutines.
type Logger struct {
	opts  Options
	pid   int
	queue *queue // nil: messages are written at once
}

// New returns a logger. It opens nothing: each message opens what it needs, so
// that log rotation and a restart of syslog need no care.
func New(opts Options) *Logger {
	l := &Logger{opts: opts, pid: os.Getpid()}
	if opts.Async {
		l.queue = newQueue(l.write)
	}
	return l
}

// Close waits until the messages of an asynchronous logger are written, but at
// most for the given time; it tells whether they are. No message may follow.
func (l *Logger) Close(wait time.Duration) bool {
	return l.queue == nil || l.queue.close(wait)
}

// severity is that of syslog(3); its number goes into the priority.
type severity int

const (
	severityError   severity = 3
	severityWarning severity = 4
	severityInfo    severity = 6
)

func (s severity) String() string {
	switch s {
	case severityError:
		return "error"
	case severityWarning:
		return "warning"
	}
	return "info"
}

// Error logs something that went wrong; subject is whose, such as "job 12@n1",
// empty for nobody's.
func (l *Logger) Error(subject string, err error) {
	l.log(message{time.Now(), severityError, subject, err.Error()})
}

// Warning logs something that a person should look at some day.
func (l *Logger) Warning(subject, text string) {
	l.log(message{time.Now(), severityWarning, subject, text})
}

// Info logs something that is as it should be.
func (l *Logger) Info(subject, text string) {
	l.log(message{time.Now(), severityInfo, subject, text})
}

// message is what one line says.
type message struct {
	at       time.Time
	severity severity
	subject  string
	text     string
}

func (l *Logger) log(m message) {
	if l.queue != nil {
		l.queue.put(m)
		return
	}
	l.write(m)
}

// write puts one line into the first place that takes it.
func (l *Logger) write(m message) {
	text := m.severity.String() + ": "
	if m.subject != "" {
		text += m.subject + ": "
	}
	text += m.text
	text = oneLine(text)
	line := fmt.Sprintf("%s %s[%d]: %s\n", m.at.Format("2006-01-02T15:04:05.000Z07:00"), l.opts.Program, l.pid, text)
	if l.opts.Target == Syslog {
		if l.toSyslog(m.at, m.severity, text) == nil {
			return
		}
	} else if appendLine(l.opts.Target, line) == nil {
		return
	}
	if appendLine(l.opts.Fallback, line) == nil {
		return
	}
	if l.opts.Last != nil {
		_, _ = io.WriteString(l.opts.Last, line) // there is nowhere left to say so
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
func (l *Logger) toSyslog(now time.Time, s severity, text string) error {
	const facilityDaemon = 3 << 3
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	packet := fmt.Sprintf("<%d>%s %s[%d]: %s", facilityDaemon|int(s), now.Format(time.Stamp), l.opts.Program, l.pid, text)
	to := &syscall.SockaddrUnix{Name: l.opts.DevLog}
	// A daemon that does not keep up gets a moment, but a job must not wait for it.
	for range 5 {
		if err = syscall.Sendto(fd, []byte(packet), syscall.MSG_NOSIGNAL, to); !errors.Is(err, syscall.EAGAIN) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return os.NewSyscallError("sendto", err)
}
