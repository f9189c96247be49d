//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// screen is a terminal of 80x24 without colour that a program draws on.
type screen struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File
	vt  vt10x.Terminal
}

// onScreen starts a program on a terminal.
func onScreen(t *testing.T, name string, args ...string) *screen {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1", "LANG=C", "LC_ALL=")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, cmd: cmd, tty: tty, vt: vt10x.New(vt10x.WithSize(80, 24))}
	drawn := make(chan struct{})
	t.Cleanup(func() { _ = cmd.Process.Kill(); tty.Close(); <-drawn })
	go func() {
		defer close(drawn)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf) // EIO after the program has ended
			if _, bad := s.vt.Write(buf[:n]); bad != nil || err != nil {
				return
			}
		}
	}()
	return s
}

// shows types keys, and waits until every expression matches a line of the screen.
func (s *screen) shows(keys string, want ...string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
	missing := ""
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		missing = ""
		for _, re := range want {
			if !regexp.MustCompile(`(?m)` + re).MatchString(s.vt.String()) {
				missing = re
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%q did not appear on the screen:\n%s", missing, s.vt.String())
		}
	}
}

// quit ends the program and checks that it has drawn only ASCII.
func (s *screen) quit() {
	s.t.Helper()
	if text := s.vt.String(); strings.ContainsFunc(text, func(r rune) bool { return r > '~' }) {
		s.t.Errorf("without UTF-8 the screen shows:\n%s", text)
	}
	if _, err := s.tty.WriteString("q"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("quit: %v", err)
	}
}
