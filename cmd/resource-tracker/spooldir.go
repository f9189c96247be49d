package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/delivery"
)

// findSpool creates the directory of the spool and returns it. If the user did not name one
// and the default cannot be used, for example a home on a network file system, it is a private
// one below TMPDIR. check is spool.CheckDir.
func (s *settings) findSpool(check func(dir string) error) (string, error) {
	if !s.anySpool {
		if err := os.MkdirAll(s.spoolDir, 0o700); err != nil {
			return "", fmt.Errorf("make the spool directory (--spool names another one): %w", err)
		}
		return s.spoolDir, nil
	}
	var failed error
	if s.spoolDir != "" {
		err := os.MkdirAll(s.spoolDir, 0o700)
		if err == nil {
			err = usable(s.spoolDir, check)
		}
		if err == nil {
			return s.spoolDir, nil
		}
		failed = err
	}
	for _, temp := range slices.Compact([]string{tempDir(), "/tmp"}) {
		dir, err := privateIn(temp, check)
		if err == nil {
			return dir, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("find a directory for the spool (--spool names one): %w", failed)
}

// usable returns why a directory cannot hold runs, nil if it can.
func usable(dir string, check func(dir string) error) error {
	if err := check(dir); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write in %s: %w", dir, err)
	}
	return nil
}

// tempDir is TMPDIR if it is absolute.
func tempDir() string {
	if dir := os.TempDir(); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return "/tmp"
}

// privateIn creates our directory in one that all users may write to, and returns it.
func privateIn(temp string, check func(dir string) error) (string, error) {
	dir := filepath.Join(temp, "rt-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if !delivery.IsPrivate(dir) {
		return "", fmt.Errorf("%s is not a directory that only this user can write to: see who created it", dir)
	}
	return dir, usable(dir, check)
}
