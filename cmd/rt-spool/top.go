package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/gempba/live"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tui/top"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch the jobs of this node, one job, a run that has ended or a GemPBA program on a full screen",
		ArgsUsage: "[JOB]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "connect", Usage: "show the workers of the GemPBA program with telemetry at `ADDR`: HOST:PORT or unix:PATH"},
			&cli.StringFlag{Name: "replay", Usage: "go through the run of `JOB`, or of a spool file, second by second"},
			&cli.StringFlag{Name: "at", Usage: "begin at `TIME` of the run: seconds after its first reading, such as 90 or 1m30s, or 12:30:05"},
			&cli.BoolFlag{Name: "all", Usage: "also runs that ended more than a day ago"},
			&cli.BoolFlag{Name: "once", Usage: "print one screen as text and exit"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON document, with --once"},
			&cli.BoolFlag{Name: "ascii", Usage: "draw with ASCII characters only; the default without a UTF-8 locale"},
		},
		Action: runTop,
	}
}

func runTop(c *cli.Context) error {
	once := c.Bool("once")
	isBoth := c.IsSet("connect") && c.IsSet("replay")
	isFlag := c.IsSet("connect") || c.IsSet("replay")
	switch {
	case c.NArg() > 1, isBoth, isFlag && c.NArg() > 0:
		return rtcli.Usage("%s takes one JOB, or --replay JOB, or --connect ADDR; %s shows what there is", c.Command.Name, listOf(c))
	case c.Bool("json") && !once:
		return rtcli.Usage("--json prints what --once does: give both")
	case !once && os.Getenv("TERM") == "dumb":
		return rtcli.Usage("%s cannot draw on this terminal (TERM=dumb): --once prints one screen as text", c.Command.Name)
	case !once && !onTerminal(c):
		return rtcli.Usage("%s needs a terminal: --once prints one screen as text, with --json for scripts", c.Command.Name)
	}
	o := top.Options{Name: "rt-spool top", ASCII: c.Bool("ascii") || !utf8Locale(), Zone: time.Local, All: c.Bool("all"), At: -1}
	if c.Command.Name == watchVerb {
		o.Name = "rt-job watch"
	}
	src, found, err := topSource(c, &o)
	if err != nil {
		return damagedFile(c, err)
	}
	return found.Close(show(c, src, &o))
}

// listOf is the command that lists what can be watched.
func listOf(c *cli.Context) string {
	if c.Command.Name == watchVerb {
		return jobProgram
	}
	return "rt-spool ls"
}

// show draws the screen of a source, or prints it with --once.
func show(c *cli.Context, src top.Source, o *top.Options) error {
	if err := setAt(c, src, o); err != nil {
		return damagedFile(c, err)
	}
	if !c.Bool("once") {
		return damagedFile(c, top.Run(c.Context, src, *o, os.Stdin, os.Stdout))
	}
	return showOnce(c, src, *o)
}

func showOnce(c *cli.Context, src top.Source, o top.Options) (err error) {
	var f *top.Frame
	if c.Bool("json") {
		var doc any
		f, doc, err = top.Document(c.Context, src, o)
		if err == nil {
			noteDenied(c, f.Denied)
			err = rtcli.PrintJSON(c.App.Writer, doc)
		}
	} else {
		columns := cmp.Or(rtcli.TerminalWidth(c.App.Writer), 80)
		f, err = top.Print(c.Context, src, o, c.App.Writer, columns)
	}
	if err != nil {
		return damagedFile(c, err)
	}
	return runs.Unreadable(f.Problems, len(f.Jobs)+len(f.Problems))
}

func onTerminal(c *cli.Context) bool {
	return rtcli.IsTerminal(c.App.Writer) && rtcli.IsTerminal(os.Stdin)
}

// topSource returns the source that the command line names, and the runs of a site that it shows.
func topSource(c *cli.Context, o *top.Options) (top.Source, *client.FoundJob, error) {
	found := &client.FoundJob{}
	if c.IsSet("connect") {
		addr, err := live.ParseAddress(c.String("connect"))
		if err != nil {
			return nil, nil, rtcli.Usage("--connect %w", err)
		}
		return &top.Telemetry{Name: addr.String(), Dial: addr.Dial}, found, nil
	}
	cfg, err := load(c)
	if err != nil {
		return nil, nil, err
	}
	job, replay := c.Args().First(), c.String("replay")
	dirs := spoolDirs(c, cfg.Spool)
	if job == "" && replay == "" {
		err := runs.CheckExists(dirs[0])
		if err != nil && c.Command.Name == watchVerb {
			err = fmt.Errorf("no jobs are tracked on this machine: rt-job lists your jobs, rt-job JOB shows one, and srun --jobid JOB --overlap --pty rt-job watch watches it on its node (%w)", err)
		}
		return &top.Spooled{Dir: dirs[0], More: dirs[1:]}, found, err
	}
	find := func() ([]string, error) {
		entries, err := runs.Find(dirs, []string{job})
		return runs.Paths(entries), err
	}
	_, statErr := os.Stat(replay)
	isFile := replay != "" && (statErr == nil || runs.IsFile(replay))
	if isFile {
		find = func() ([]string, error) { return []string{replay}, nil }
	}
	var files []string
	if replay == "" || isFile {
		files, err = find()
	}
	isAbsent := errors.Is(err, spool.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || runs.IsDenied(err)
	isJobReplay := replay != "" && !isFile // the site may have more of its runs than the local spool
	if isAbsent || isJobReplay {
		found, err = findJob(c, cmp.Or(replay, job))
		if err == nil {
			err = fetch(c, found)
		}
		if err != nil {
			return nil, nil, err
		}
		files = runs.Paths(found.Entries)
		find = func() ([]string, error) { return files, nil }
	}
	if err != nil {
		return nil, nil, err
	}
	if len(files) == 1 {
		o.Open = files[0]
		src := top.File(files[0])
		src.IsCopy = found.IsFetched
		return src, found, nil
	}
	if found.Site != nil {
		dirs = []string{filepath.Dir(files[0])}
	}
	return &top.Spooled{Dir: dirs[0], More: dirs[1:], Find: find, IsCopy: found.IsFetched}, found, nil
}

// setAt sets the moment of --at, which needs the start of the run.
func setAt(c *cli.Context, src top.Source, o *top.Options) error {
	at := c.String("at")
	if at == "" {
		return nil
	}
	if o.Open == "" {
		return rtcli.Usage("--at is a moment of one run: give its JOB, or --replay JOB")
	}
	var err error
	o.At, err = top.Moment(c.Context, src, *o, at)
	if errors.Is(err, top.ErrMoment) {
		return rtcli.Usage("--at: %w", err)
	}
	return err
}

// damagedFile marks damage of files, and adds what to do if permissions are missing.
func damagedFile(c *cli.Context, err error) error {
	if errors.Is(err, spool.ErrDamaged) || errors.Is(err, spool.ErrForeign) {
		return errkind.With(runs.ErrDamaged, err)
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, rtcli.ErrUsage):
		return err
	case errors.Is(err, fs.ErrPermission) && !errors.Is(err, spool.ErrNotFound): // that one says it
		return fmt.Errorf("%s: %w: spool.access in rt.toml says who may read it", c.Command.Name, err)
	}
	return fmt.Errorf("%s: %w", c.Command.Name, err)
}
