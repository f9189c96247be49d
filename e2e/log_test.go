//go:build e2e

package e2e

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// logWatch gathers what hooks and trackers log from now on, wherever it goes: the
// configured file, or the system's log where the configuration cannot be read.
type logWatch struct {
	s      *site
	before int
	syslog net.PacketConn // nil where a syslog daemon is at work
	since  time.Time
}

const devLog = "/dev/log"

func watchLog(t *testing.T, s *site) *logWatch {
	t.Helper()
	w := &logWatch{s: s, before: len(s.logLines(t)), since: time.Now()}
	if !exists(devLog) {
		c, err := net.ListenPacket("unixgram", devLog)
		if err != nil {
			t.Fatal(err)
		}
		w.syslog = c
		t.Cleanup(func() {
			c.Close()
			if err := os.Remove(devLog); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		})
	}
	return w
}

func (w *logWatch) lines(t *testing.T) []string {
	t.Helper()
	all := w.s.logLines(t)[w.before:]
	if w.syslog == nil {
		out, err := exec.Command("journalctl", "-q", "-o", "cat", "--since", w.since.Format("2006-01-02 15:04:05"),
			"-t", "rt-prolog", "-t", "rt-epilog", "-t", "rt-tracker").Output()
		if err != nil {
			t.Fatalf("reading the journal: %v", err)
		}
		return append(all, lines(string(out))...)
	}
	packet := make([]byte, 64<<10)
	if err := w.syslog.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		n, _, err := w.syslog.ReadFrom(packet)
		if err != nil { // all has been read: the job's hooks have ended
			return all
		}
		if text := string(packet[:n]); strings.Contains(text, "rt-") {
			all = append(all, text)
		}
	}
}
