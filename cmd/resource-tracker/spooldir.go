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

// findSpool makes the directory of the spool and returns it. Where the user did
// not name one and the usual one will not do, as homes on a network file system
// do not, it is a private one among temporary files. check is spool.CheckDir.
func (s *settings) findSpool(check func(dir string) error) (string, error) {
	if !s.anySpool {
		if err := os.MkdirAll(s.spoolDir, 0o700); err != nil {
			return "", fmt.Errorf("make the spool directory (--spool names another one): %w", err)
		}
		return s.spoolDir, nil
	}
	var why error
	if s.spoolDir != "" {
		err := os.MkdirAll(s.spoolDir, 0o700)
		if err == nil {
			err = usable(s.spoolDir, check)
		}
		if err == nil {
			return s.spoolDir, nil
		}
		why = err
	}
	for _, temp := range slices.Compact([]string{tempDir(), "/tmp"}) {
		dir, err := privateIn(temp, check)
		if err == nil {
			return dir, nil
		}
		why = errors.Join(why, err)
	}
	return "", fmt.Errorf("find a directory for the spool (--spool names one): %w", why)
}

// usable says whether we can keep runs in a directory.
func usable(dir string, check func(dir string) error) error {
	if err := check(dir); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write in %s: %w", dir, err)
	}
	return nil
}

// tempDir is TMPDIR where it is absolute.
func tempDir() string {
	if dir := os.TempDir(); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return "/tmp"
}

// privateIn makes our directory in one where anybody may write, and returns it. It
// is an error when somebody else was there before us.
func privateIn(temp string, check func(dir string) error) (string, error) {
	dir := filepath.Join(temp, "rt-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if !delivery.IsPrivate(dir) {
		return "", fmt.Errorf("%s: is no directory that only we can use: see who made it", dir)
	}
	return dir, usable(dir, check)
}
