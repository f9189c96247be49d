package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/resource-tracker/rt/spool"
)

// privatePrefix begins the names of the directories that streaming makes.
const privatePrefix = "resource-tracker-"

// tellOfOthers warns of runs of ours that wait where nobody would look: a tracker
// that is killed leaves its private spool and cannot say so.
func (s *streamer) tellOfOthers() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), privatePrefix+"*"))
	if err != nil {
		return // the pattern of a temporary directory with brackets in its name
	}
	for _, dir := range dirs {
		if dir != filepath.Dir(s.path) && ours(dir) && waits(dir) {
			s.warn(fmt.Errorf("an earlier run was not delivered; this sends it: %s", s.command(dir)))
		}
	}
}

// ours: a directory that nobody else may have written into.
func ours(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&^os.ModeSetgid != os.ModeDir|0o700 { // a directory may get its parent's group
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

// waits: it holds a run whose tracker has gone.
func waits(dir string) bool {
	entries, err := spool.List(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Err == nil && !e.Live && e.DeliveredAt.IsZero() {
			return true
		}
	}
	return false
}
