package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// TestByHand: a tracker that is started on a terminal prints what it is, and does not wait for
// its standard input.
func TestByHand(t *testing.T) {
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer tty.Close()
	var stdout, stderr strings.Builder
	if status := run(nil, tty, &stdout, &stderr); status != 2 {
		t.Errorf("status %d, want 2", status)
	}
	for _, want := range []string{"rt-prolog", "spool.dir", "log.target", "resource-tracker -- COMMAND"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not speak of %s:\n%s", want, stderr.String())
		}
	}
	if stdout.Len() > 0 {
		t.Errorf("on standard output: %q", stdout.String())
	}
	stderr.Reset()
	if status := run([]string{"--help"}, strings.NewReader(""), &stdout, &stderr); status != 0 || !strings.Contains(stderr.String(), "It is not started by hand") {
		t.Errorf("--help: status %d:\n%s", status, stderr.String())
	}
}

func TestGroupName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "group")
	if err := os.WriteFile(file, []byte("root:x:0:\n+\nphysics:x:4711:anna,bert"), 0o600); err != nil {
		t.Fatal(err)
	}
	for gid, want := range map[uint64]string{0: "root", 4711: "physics", 5: ""} {
		if got := groupName(file, gid); got != want {
			t.Errorf("group %d is %q, want %q", gid, got, want)
		}
	}
	if got := groupName(file+".missing", 0); got != "" {
		t.Errorf("without a file, group 0 is %q", got)
	}
}

// The group of the job's user, which Slurm does not send, is in the run, and in its metadata as the team.
func TestReadRun(t *testing.T) {
	s := newSite(t)
	run, err := readRun(strings.NewReader(s.stdin()))
	if err != nil || run.Group != groupName("/etc/group", 0) || run.Meta.Team != run.Group || run.Group == "" {
		t.Errorf("group %q, team %q, %v", run.Group, run.Meta.Team, err)
	}
}
