package streaming

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// started is a Process with the warnings so far.
type started struct {
	*Process
	mu       sync.Mutex
	warnings []string
}

// startScript starts a shell script as rt-spool; without a script there is no rt-spool.
func startScript(t *testing.T, script string) *started {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, Program), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	if script == "" {
		t.Setenv("PATH", dir)
	}
	lock, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	s := &started{}
	s.Process = Start(Order{Path: "/spool/run.db", Every: time.Second}, "http://receiver/", lock, (*exec.Cmd).Start, func(err error) {
		s.mu.Lock()
		s.warnings = append(s.warnings, err.Error())
		s.mu.Unlock()
	})
	t.Cleanup(s.Kill)
	return s
}

const sendsLater = "; it is kept, and this sends it later: SENTINEL_API_URL=http://receiver rt-spool --spool /spool drain"

// However the process ends before the run is sent, there is one warning, with the command that sends it.
func TestProcessThatDies(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"no program":       {"", "rt-spool, which sends it, is neither in "},
		"an older program": {`echo 'rt-spool: "stream" is not a verb' >&2; exit 2`, `/rt-spool, which sends it: exit status 2: rt-spool: "stream" is not a verb`},
		"killed":           {"kill -9 $$", "which sends it: signal: killed"},
		"too early":        {"read order", "which sends it: it exited before the run was sent"},
		"another program":  {"echo hello; exec sleep 600", "which sends it: its output is not that of rt-spool stream"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startScript(t, c.script)
			<-s.ended
			s.Leave()
			s.Finish(t.Context())
			if len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "the run is not delivered: ") || !strings.Contains(s.warnings[0], c.want) || !strings.HasSuffix(s.warnings[0], sendsLater) {
				t.Errorf("%q", s.warnings)
			}
		})
	}
}

// The process gets the order and the commands, and its messages are printed.
func TestProcessThatSends(t *testing.T) {
	s := startScript(t, `
read -r order; read -r leave; echo '{"left":true}'; read -r finish
printf '{"warning":"%s, %s"}\n' "$leave" "$finish"
case $order in '{"path":"/spool/run.db","private":false,"every_ns":1000000000,'*) echo '{"settled":true}' ;; esac
`)
	s.Leave()
	s.Finish(t.Context())
	if len(s.warnings) != 1 || s.warnings[0] != "leave, finish" {
		t.Errorf("%q", s.warnings)
	}
}

// The run ends after the process has locked the spool, so that no drain takes it in between.
func TestProcessLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // while the process runs, no time limit is reached
		dir := t.TempDir()
		for _, fifo := range []string{"asked", "allowed"} {
			if err := unix.Mkfifo(filepath.Join(dir, fifo), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := startScript(t, `cd "`+dir+`"; read -r order; read -r leave; echo >asked; read -r go <allowed; : >locked; echo '{"left":true}'; read -r finish; echo '{"settled":true}'`)
		wasLocked := make(chan bool)
		go func() {
			s.Leave()
			wasLocked <- isThere(t, filepath.Join(dir, "locked"))
		}()
		if _, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "allowed"), []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !<-wasLocked {
			t.Error("Leave did not wait until the process has locked the spool")
		}
		s.Finish(t.Context())
		if len(s.warnings) != 0 {
			t.Errorf("%q", s.warnings)
		}
	})
}

func isThere(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return err == nil
}

// At the end of the time the process gets the reason.
func TestProcessGetsNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // while the process runs, it is not killed
		checkNoMoreTime(t, startScript(t, `read -r order; read -r finish; read -r stop cause; echo "{\"kept\":\"$cause\"}"`))
	})
}

// If the process hangs then, it is killed.
func TestProcessThatHangs(t *testing.T) {
	s := startScript(t, `exec sleep 600`)
	s.patience = time.Millisecond
	checkNoMoreTime(t, s)
}

func checkNoMoreTime(t *testing.T, s *started) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("eight seconds are over"))
	s.Finish(ctx)
	<-s.ended
	if len(s.warnings) != 1 || s.warnings[0] != "the run is not delivered: eight seconds are over"+sendsLater {
		t.Errorf("%q", s.warnings)
	}
}

// Kill prints nothing.
func TestProcessIsKilled(t *testing.T) {
	s := startScript(t, "exec sleep 600")
	s.Kill()
	<-s.ended
	if len(s.warnings) != 0 {
		t.Errorf("%q", s.warnings)
	}
}
