package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/spool"
)

// commandLimit is the longest time that one command may take.
const commandLimit = 20 * time.Second

// Command runs a program and returns its standard output. The error has its last words.
func Command(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// ReadSpace returns the room on the file system of a directory.
func ReadSpace(dir string) (Space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Space{}, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	isMemory := st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
	return Space{
		Free:    st.Bavail * uint64(st.Bsize),
		Network: errors.Is(spool.CheckDir(dir), spool.ErrNetworkFS),
		Memory:  isMemory,
	}, nil
}

// ownerOf returns the user id of a file's owner.
func ownerOf(info os.FileInfo) uint32 {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st == nil {
		return 0
	}
	return st.Uid
}
