package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/telemetry"
	"github.com/resource-tracker/rt/internal/tui/top"
	"github.com/resource-tracker/rt/spool"
)

func topCommand() *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch the jobs of this node, one job, a run that has ended or a GemPBA program on a full screen",
		ArgsUsage: "[JOB]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "connect", Usage: "show the workers of the GemPBA program with telemetry at `ADDR`: HOST:PORT or unix:PATH"},
			&cli.StringFlag{Name: "replay", Usage: "go through the run of the spool file `FILE` second by second"},
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
		return rtcli.Usage("top takes one JOB, or --replay FILE, or --connect ADDR; rt-spool ls shows what there is")
	case c.Bool("json") && !once:
		return rtcli.Usage("--json prints what --once does: give both")
	case !once && os.Getenv("TERM") == "dumb":
		return rtcli.Usage("top cannot draw on this terminal (TERM=dumb): --once prints one screen as text")
	case !once && !onTerminal(c):
		return rtcli.Usage("top needs a terminal: --once prints one screen as text, with --json for scripts")
	}
	o := top.Options{ASCII: c.Bool("ascii") || !utf8Locale(), Zone: time.Local, All: c.Bool("all"), At: -1}
	src, err := topSource(c, &o)
	if err == nil {
		err = setAt(c, src, &o)
	}
	if err != nil {
		return damagedFile(err)
	}
	if !once {
		return damagedFile(top.Run(c.Context, src, o, os.Stdin, os.Stdout))
	}
	var f *top.Frame
	if c.Bool("json") {
		var doc any
		f, doc, err = top.OnceJSON(c.Context, src, o)
		if err == nil {
			noteDenied(c, f.Denied)
			err = rtcli.PrintJSON(c.App.Writer, doc)
		}
	} else {
		columns := cmp.Or(rtcli.TerminalWidth(c.App.Writer), 80)
		f, err = top.Once(c.Context, src, o, c.App.Writer, columns)
	}
	if err != nil {
		return damagedFile(err)
	}
	return unreadable(f.Problems, len(f.Jobs)+len(f.Problems))
}

func onTerminal(c *cli.Context) bool {
	return rtcli.IsTerminal(c.App.Writer) && rtcli.IsTerminal(os.Stdin)
}

// topSource returns the source that the command line names.
func topSource(c *cli.Context, o *top.Options) (top.Source, error) {
	if c.IsSet("connect") {
		addr, err := telemetry.ParseAddress(c.String("connect"))
		if err != nil {
			return nil, rtcli.Usage("--connect %w", err)
		}
		return &top.Telemetry{Name: addr.String(), Dial: addr.Dial}, nil
	}
	if file := c.String("replay"); file != "" {
		o.Open = file
		return top.File(file), nil
	}
	cfg, err := load(c)
	if err != nil {
		return nil, err
	}
	dirs, job := spoolDirs(c, cfg.Spool), c.Args().First()
	if err := spoolThere(dirs[0], c.Args().Slice()...); err != nil {
		return nil, err
	}
	if job == "" {
		return &top.Spooled{Dir: dirs[0], More: dirs[1:]}, nil
	}
	find := func() ([]string, error) {
		entries, err := findRuns(dirs, job)
		return paths(entries), err
	}
	found, err := find()
	if err != nil {
		return nil, err
	}
	if len(found) == 1 {
		o.Open = found[0]
		return top.File(found[0]), nil
	}
	return &top.Spooled{Dir: dirs[0], More: dirs[1:], Find: find}, nil
}

// setAt sets the moment of --at, which needs the start of the run.
func setAt(c *cli.Context, src top.Source, o *top.Options) error {
	at := c.String("at")
	if at == "" {
		return nil
	}
	if o.Open == "" {
		return rtcli.Usage("--at is a moment of one run: give its JOB, or --replay FILE")
	}
	var err error
	o.At, err = top.Moment(c.Context, src, *o, at)
	if errors.Is(err, top.ErrMoment) {
		return rtcli.Usage("--at: %w", err)
	}
	return err
}

// damagedFile marks damage of files, and adds what to do if permissions are missing.
func damagedFile(err error) error {
	if errors.Is(err, spool.ErrDamaged) || errors.Is(err, spool.ErrForeign) {
		return errkind.With(errDamaged, err)
	}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return nil
	case errors.Is(err, rtcli.ErrUsage):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("top: %w: run rt-spool as root or as the spool's owner", err)
	}
	return fmt.Errorf("top: %w", err)
}
