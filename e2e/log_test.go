//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logWatch collects what hooks and trackers log from now on, in the configured file or, if
// the configuration cannot be read, in the system's log.
type logWatch struct {
	s         *site
	before    int           // lines in the file
	journaled int           // lines of the journal since then
	syslog    *net.UnixConn // nil if a syslog daemon runs
	since     time.Time
}

const devLog = "/dev/log"

var namedJob = regexp.MustCompile(`\bjob \d+`)

func watchLog(t *testing.T, s *site) *logWatch {
	t.Helper()
	w := &logWatch{s: s, before: len(s.logLines(t)), since: time.Now()}
	if !exists(devLog) {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: devLog, Net: "unixgram"})
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

// ofJob waits for the first line about a job, and returns what is logged until then, but not the lines that name
// another job: its hooks may end late.
func (w *logWatch) ofJob(t *testing.T, id int64) (found []string) {
	t.Helper()
	own := fmt.Sprintf("job %d", id)
	until(t, fmt.Sprintf("a log line about job %d", id), func() bool {
		isThere := false
		for _, line := range w.lines(t) {
			name := namedJob.FindString(line)
			if name != "" && name != own {
				t.Logf("of another job: %s", line)
				continue
			}
			found = append(found, line)
			isThere = isThere || name == own
		}
		return isThere
	})
	return found
}

// lines returns what was logged since the watch began or since the last call.
func (w *logWatch) lines(t *testing.T) []string {
	t.Helper()
	all := w.s.logLines(t)[w.before:]
	w.before += len(all)
	if w.syslog == nil {
		command(t, "journalctl", "--sync") // writes what it has received
		out, err := exec.Command("journalctl", "-q", "-o", "cat", "--since", w.since.Format("2006-01-02 15:04:05"),
			"-t", "rt-prolog", "-t", "rt-epilog", "-t", "rt-tracker").Output()
		if err != nil {
			t.Fatalf("reading the journal: %v", err)
		}
		journal := lines(string(out))[w.journaled:]
		w.journaled += len(journal)
		return append(all, journal...)
	}
	raw, err := w.syslog.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 64<<10)
	for n := 0; err == nil; { // until all is read: the job's hooks have ended
		if bad := raw.Read(func(fd uintptr) bool {
			n, _, err = syscall.Recvfrom(int(fd), packet, syscall.MSG_DONTWAIT)
			return true // do not wait
		}); bad != nil {
			t.Fatal(bad)
		}
		if text := string(packet[:max(n, 0)]); strings.Contains(text, "rt-") {
			all = append(all, text)
		}
	}
	if err != syscall.EAGAIN {
		t.Fatalf("reading %s: %v", devLog, err)
	}
	return all
}
