// Package durable makes changes of files survive a power failure.
package durable

import (
	"errors"
	"os"
)

// SyncDir syncs a directory, so that new, renamed and removed files in it survive a power
// failure.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
