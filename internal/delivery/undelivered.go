package delivery

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/resource-tracker/rt/spool"
)

// PrivatePrefix begins the names of the private spool directories of streams.
const PrivatePrefix = "resource-tracker-"

// undelivered lists the private spools below temp, but one, that hold a run without a
// tracker: a tracker that is killed leaves its private spool and cannot report it.
func undelivered(temp, but string) (list []string) {
	dirs, err := filepath.Glob(filepath.Join(temp, PrivatePrefix+"*"))
	if err != nil {
		return nil // the name of the temporary directory has brackets
	}
	for _, dir := range dirs {
		if dir != but && IsPrivate(dir) && hasUndelivered(dir) {
			list = append(list, dir)
		}
	}
	return list
}

// IsPrivate reports whether only our user can write into a directory.
func IsPrivate(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&^os.ModeSetgid != os.ModeDir|0o700 { // a directory may inherit its parent's group
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}

func hasUndelivered(dir string) bool {
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
