package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/spool"
)

// unreadable returns the error of files that are damaged or that this user may not read.
func unreadable(bad []error, of int) error {
	denied := 0
	for _, err := range bad {
		if isDenied(err) {
			denied++
		}
	}
	switch {
	case len(bad) == 0:
		return nil
	case denied == len(bad):
		return fmt.Errorf("%d of %d files may not be read by this user: run rt-spool as root or as the spool's owner", denied, of)
	}
	return fmt.Errorf("%w: %d of %d files cannot be read", errDamaged, len(bad), of)
}

// entriesOf returns the runs of the jobs, or all of the spool if none is named.
func entriesOf(c *cli.Context, jobs []string) ([]spool.Entry, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	dirs := spoolDirs(c, cfg.Spool)
	if err := spoolThere(dirs[0], jobs...); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return listAll(dirs)
	}
	var out []spool.Entry
	for _, job := range jobs {
		found, err := findRuns(dirs, job)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// findRuns returns the runs of a JOB in all directories, or the error of the first one.
func findRuns(dirs []string, job string) ([]spool.Entry, error) {
	if isFile(job) {
		return spool.FindJob(dirs[0], job)
	}
	var out []spool.Entry
	var missing error
	for _, dir := range dirs {
		found, err := findIn(dir, job)
		switch {
		case errors.Is(err, spool.ErrNotFound):
			missing = cmp.Or(missing, err)
		case err != nil:
			return nil, err
		}
		out = append(out, found...)
	}
	if len(out) == 0 {
		return nil, missing
	}
	return out, nil
}

// findIn returns the runs of a JOB in one directory. If it finds none and there are files that
// this user may not read, the error names them: the run may be one of these.
func findIn(dir, job string) ([]spool.Entry, error) {
	found, err := spool.FindJob(dir, job)
	if !errors.Is(err, spool.ErrNotFound) {
		return found, err
	}
	entries, listErr := spool.List(dir)
	if listErr != nil {
		return nil, err
	}
	var denied []error
	for i := range entries {
		if isDenied(entries[i].Err) {
			denied = append(denied, entries[i].Err)
		}
	}
	if len(denied) == 0 {
		return nil, err
	}
	denial := errkind.With(fs.ErrPermission, unreadable(denied, len(entries)))
	return nil, errkind.With(spool.ErrNotFound, fmt.Errorf("job %q in %s is none of the runs that can be read: %w", job, dir, denial))
}

// isFile reports whether JOB is the path of a file.
func isFile(job string) bool {
	return strings.HasSuffix(job, ".db") || strings.ContainsRune(job, filepath.Separator)
}

// spoolThere checks that the spool directory exists, unless all jobs are paths of files.
func spoolThere(dir string, jobs ...string) error {
	if len(jobs) > 0 && !slices.ContainsFunc(jobs, func(job string) bool { return !isFile(job) }) {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return errkind.With(err, fmt.Errorf("there is no spool directory %s: --spool DIR names another one, and a user's own is ~/.local/state/rt", dir))
	}
	return nil
}

// ownSpool returns an error if root works on a directory that belongs to neither root nor
// spool.user. The owner of the directory can write any run and any registration into it, which root
// would deliver with the token of the site. The owner can also replace its files at any time.
func ownSpool(cfg config.Spool) error {
	st, err := os.Stat(cfg.Dir)
	if os.Geteuid() != 0 || errors.Is(err, fs.ErrNotExist) {
		return nil // spoolThere reports a missing one
	}
	if err != nil {
		return fmt.Errorf("the spool directory: %w", err)
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	uid := strconv.FormatUint(uint64(owner.Uid), 10)
	if u, err := user.Lookup(cfg.User); err == nil && u.Uid == uid {
		return nil
	}
	return misconfigured(fmt.Errorf("%s belongs to uid %s, neither to root nor to spool.user (%s): root does not deliver or remove runs of other users; run rt-spool as uid %s, or make it the site's own with chown -R %s %s",
		cfg.Dir, uid, cfg.User, uid, cfg.User, cfg.Dir))
}

// runsFor returns the runs of a job, on the node of --node.
func runsFor(c *cli.Context, job string) ([]spool.Entry, error) {
	entries, err := entriesOf(c, []string{job})
	if err != nil {
		return nil, err
	}
	node := c.String("node")
	if node == "" {
		return entries, nil
	}
	entries = slices.DeleteFunc(entries, func(e spool.Entry) bool { return e.Run.Node != node })
	if len(entries) == 0 {
		return nil, fmt.Errorf("job %s on node %s: %w", job, node, spool.ErrNotFound)
	}
	return entries, nil
}

func paths(entries []spool.Entry) []string {
	return texts(entries, func(e spool.Entry) string { return e.Path })
}

func texts[T any](list []T, text func(T) string) (out []string) {
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

// makeSpool creates the directory of --spool; the configured one is created with the node.
func makeSpool(c *cli.Context, dir string) error {
	if !c.IsSet("spool") {
		return spoolThere(dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the spool directory: %w", err)
	}
	return nil
}
