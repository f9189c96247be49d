package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
)

// errUnwritten means that runs are not in the lake.
var errUnwritten = errors.New("runs could not be written to the lake")

// write writes what was delivered since the last time.
func write(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	return o.withLake(ctx, stderr, func(l *opened) error { return o.pass(ctx, l, stdout) })
}

// rebuild writes everything.
func rebuild(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	return o.withLake(ctx, stderr, func(l *opened) error {
		lost, err := l.Repair(ctx)
		if err != nil {
			return err
		}
		for _, damage := range lost {
			cli.Message(stderr, "rt-lake", "%v", damage)
			err = fmt.Errorf("%w: %d files of the lake, see the messages: their runs that the site has no more are lost", site.ErrDamaged, len(lost))
		}
		if err := l.Registry.Lake.Rebuild(ctx); err != nil {
			return err
		}
		return errors.Join(err, o.pass(ctx, l, stdout))
	})
}

func (o *options) pass(ctx context.Context, l *opened, stdout io.Writer) error {
	if err := removeTemporary(l.Temp); err != nil {
		return err
	}
	begin := time.Now()
	done, err := l.Write(ctx)
	if err != nil {
		return err
	}
	return errors.Join(l.Registry.Lake.Done(ctx, begin), o.print(stdout, done))
}

// tempDirs matches the directories of temporary files.
const tempDirs = "rt-lake-*"

// removeTemporary removes the temporary files of a killed writer. This one has the lock.
func removeTemporary(temp string) error {
	if temp == "" {
		return nil // the system removes its own
	}
	left, err := filepath.Glob(filepath.Join(temp, tempDirs))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func (o *options) print(w io.Writer, done lake.Totals) (err error) {
	if o.json {
		err = cli.PrintJSON(w, done)
	} else {
		fmt.Fprintf(w, "wrote %d runs with %d samples, removed %d runs: %d files, %d bytes\n", done.Runs, done.Samples, done.Removed, done.Files, done.Bytes)
	}
	if done.Expired > 0 && !o.json {
		fmt.Fprintf(w, "removed %d runs that are older than serve.retain_lake\n", done.Expired)
	}
	if done.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %w: %d records cannot be read, see the messages: rt-site verify says what to do", site.ErrDamaged, errUnwritten, done.Failed))
	}
	return err
}

// compact merges small files.
func compact(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	return o.withLake(ctx, stderr, func(l *opened) error {
		done, err := l.Compact(ctx)
		if err != nil {
			return err
		}
		if o.json {
			return cli.PrintJSON(stdout, done)
		}
		fmt.Fprintf(stdout, "merged files: %d new ones, %d bytes\n", done.Files, done.Bytes)
		return nil
	})
}

// forget removes the runs of users. Runs leave the lake or get the new names as at the site. Then it removes the runs of
// the users that the site has no more.
func forget(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	if len(o.users) == 0 {
		return cli.Usage("forget needs --user NAME; see rt-lake --help")
	}
	return o.withLake(ctx, stderr, func(l *opened) (err error) {
		var done lake.Totals
		if !o.dryRun {
			done, err = l.Write(ctx)
			if err != nil {
				return err
			}
		}
		left, err := l.Forget(ctx, o.users, o.dryRun)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "in the lake: %d runs written again, %d removed\n", done.Runs, done.Removed+left.Removed)
		if done.Failed > 0 {
			return fmt.Errorf("%w: %w: %d", site.ErrDamaged, errUnwritten, done.Failed)
		}
		return nil
	})
}
