package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
)

// fakeLake puts a script in the place of rt-lake, next to this program.
func fakeLake(t *testing.T, script string) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(own), "rt-lake")
	t.Cleanup(func() { os.Remove(program) })
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// forget starts rt-lake for the users, and fails if it fails. The end of forget is in the audit after it.
func TestForgetInLake(t *testing.T) {
	dir, conf := newSite(t)
	lake := filepath.Join(t.TempDir(), "lake")
	configured := func(lake string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(fmt.Sprintf("[serve]\ndir = %q\nlake = %q\n", dir, lake)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	last := func() string {
		t.Helper()
		st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		lines, err := st.Registry.Settings.Audits(t.Context())
		if err != nil || len(lines) == 0 {
			t.Fatalf("%q, %v", lines, err)
		}
		return lines[len(lines)-1]
	}
	configured(filepath.Join(dir, "lake"))
	if status, out, _ := rtSite(t, dir, "--config", conf, "forget", "--user", "alice"); status != exitConfig || strings.Contains(out, "delete the runs") {
		t.Errorf("a lake within the site: %d %s", status, out)
	}
	configured(lake)
	fakeLake(t, `echo "called $*"; case $* in *dry-run*) exit 0 ;; esac; exit 65`)
	status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "alice", "--dry-run")
	if status != cli.ExitOK || !strings.Contains(out, "called forget --user alice --dry-run --") {
		t.Errorf("a dry run: %d %s%s", status, out, messages)
	}
	status, _, messages = rtSite(t, dir, "--config", conf, "forget", "--user", "alice")
	if status != exitData || !strings.Contains(messages, "may still be in the lake") || !strings.Contains(last(), "failed to delete the runs of alice") {
		t.Errorf("rt-lake failed: %d %s, %s", status, messages, last())
	}
	fakeLake(t, "exit 0")
	if status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "alice"); status != cli.ExitOK || !strings.Contains(last(), "ended to delete the runs of alice") {
		t.Errorf("%d %s%s, %s", status, out, messages, last())
	}
}
