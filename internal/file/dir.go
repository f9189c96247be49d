// Package file makes changes of files survive a power failure.
package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// sync is SyncDir, except in tests.
var sync = SyncDir

// MkdirAll creates a directory, with the directories above it that are missing, so that all of them
// survive a power failure. The error of a directory above that this user may not read is ignored.
func MkdirAll(dir string, mode fs.FileMode) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	// Also the parent of a directory that is there: its creation may have been interrupted.
	parents := []string{filepath.Dir(dir)}
	for {
		top := parents[len(parents)-1]
		_, err := os.Stat(top)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parents = append(parents, filepath.Dir(top))
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	for _, parent := range parents {
		err := sync(parent)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// SyncDir syncs a directory, so that new, renamed and removed files in it survive a power
// failure.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
