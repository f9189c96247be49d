package main

import (
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
