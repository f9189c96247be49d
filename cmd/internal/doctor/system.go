package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/spool"
)

// commandLimit is the longest time that one command may take if its context has no limit.
const commandLimit = 20 * time.Second

// Command runs a program and returns its standard output. The error has its last words.
func Command(ctx context.Context, name string, args ...string) ([]byte, error) {
	if _, isLimited := ctx.Deadline(); !isLimited {
		limited, cancel := context.WithTimeout(ctx, commandLimit)
		defer cancel()
		ctx = limited
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		words := strings.FieldsFunc(string(exit.Stderr), func(r rune) bool { return r == '\n' })
		err = fmt.Errorf("%w: %s", err, strings.Join(words, "; "))
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
		Free:     st.Bavail * uint64(st.Bsize),
		Network:  errors.Is(spool.CheckDir(dir), spool.ErrNetworkFS),
		Memory:   isMemory,
		ReadOnly: st.Flags&unix.ST_RDONLY != 0,
		NoFiles:  st.Files > 0 && st.Ffree == 0, // some file systems have no limit and report 0 of 0
	}, nil
}
