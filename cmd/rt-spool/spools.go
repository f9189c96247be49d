package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
)

// spoolDirs returns the directories of the runs that are shown: that of --spool, else the
// configured one and, for a user without root, the user's own.
func spoolDirs(c *cli.Context, cfg config.Spool) []string {
	own := ownSpoolDir()
	if c.IsSet("spool") || os.Geteuid() == 0 || own == cfg.Dir {
		return []string{cfg.Dir}
	}
	if st, err := os.Stat(own); err != nil || !st.IsDir() {
		return []string{cfg.Dir}
	}
	if _, err := os.Stat(cfg.Dir); errors.Is(err, fs.ErrNotExist) {
		return []string{own}
	}
	return []string{cfg.Dir, own}
}

// ownSpoolDir is the directory of the user's own runs, which resource-tracker writes; empty without
// a home.
func ownSpoolDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rt")
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local/state/rt")
	}
	return ""
}

// leaveOutDenied removes the files that this user may not read, and prints their number.
func leaveOutDenied(c *cli.Context, entries []spool.Entry) []spool.Entry {
	all := len(entries)
	entries = slices.DeleteFunc(entries, func(e spool.Entry) bool { return runs.IsDenied(e.Err) })
	noteDenied(c, all-len(entries))
	return entries
}

// noteDenied prints the number of files that are left out because this user may not read them.
func noteDenied(c *cli.Context, n int) {
	if n > 0 {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "%s that this user may not read %s left out", plural(n, "file"), map[bool]string{true: "is", false: "are"}[n == 1])
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
