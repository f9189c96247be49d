// Rt-spool shows, exports, checks and delivers the runs that trackers have spooled. Under its second name, rt-job, it is
// what a user types to see jobs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/format/sonar"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/tui"
	"github.com/resource-tracker/rt/upload"
)

// The exit statuses from sysexits.h, which not all programs share.
const (
	exitDamaged   = 65 // EX_DATAERR: some files are damaged; everything else was done
	exitTemporary = 75 // EX_TEMPFAIL: retry later, nothing is lost
	exitConfig    = 78 // EX_CONFIG: the configuration must be changed first
)

const exitHelp = `EXIT STATUS:
   0   done (drain: everything that was ready is delivered, or another drain is running)
   1   an error, see the message
   2   wrong command line
   65  some files are damaged; everything else was done
   75  not everything could be delivered, or the site gave no answer; retry
   78  the configuration must be changed first
`

var errConfig = errors.New("configuration")

// misconfigured marks an error that is fixed in the configuration.
func misconfigured(err error) error { return errkind.With(errConfig, err) }

// exitStatus maps errors to exit statuses.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return rtcli.ExitOK
	case errors.Is(err, rtcli.ErrUsage):
		return rtcli.ExitUsage
	case errors.Is(err, errConfig), errors.Is(err, upload.ErrConfig):
		return exitConfig
	case errors.Is(err, upload.ErrTemporary), errors.Is(err, context.Canceled), client.IsTemporary(err):
		return exitTemporary
	case errors.Is(err, runs.ErrDamaged), spool.IsDamage(err), errors.Is(err, spool.ErrRecord), errors.Is(err, ftdc.ErrDamaged), errors.Is(err, tui.ErrDamaged), errors.Is(err, sonar.ErrDamaged), errors.Is(err, upload.ErrDamaged):
		return exitDamaged
	}
	return rtcli.ExitError
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	if filepath.Base(args[0]) == jobProgram {
		app, args = newJobApp(stdout, stderr), withoutDashJ(args)
	}
	err := app.RunContext(ctx, inOrder(app, args))
	if problems, ok := errors.AsType[foundProblems](err); ok {
		return int(problems)
	}
	isCut := errors.Is(err, syscall.EPIPE) // the reader of the output, such as head, has ended
	if err != nil && !isCut {
		rtcli.Message(stderr, app.Name, "%v", err)
	}
	return exitStatus(err)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.HelpPrinter = printHelp
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, rt.VersionLine(c.App.Name)) }
	app := &cli.App{
		Name:            "rt-spool",
		Usage:           "show, export, check and deliver the runs that trackers have spooled",
		UsageText:       "rt-spool [--config FILE] [--spool DIR] VERB [flags] [JOB...]",
		Version:         rt.Version,
		HideHelpCommand: true,
		Writer:          stdout,
		ErrWriter:       stderr,
		ExitErrHandler:  func(*cli.Context, error) {}, // run has the one table of statuses
		OnUsageError:    onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read `FILE` instead of " + config.DefaultPath},
			&cli.StringFlag{Name: "spool", Usage: "use the spool `DIR` instead of spool.dir of the configuration"},
		},
		Description: `JOB is a job id (12), a task of an array (12_3), a component of a
heterogeneous job (12+1), a step (12.0), the name of
a run as ls shows it, or the path of a spool file.`,
		Commands: []*cli.Command{
			lsCommand(), jobsCommand(), reportCommand(), exportCommand(), importCommand(), topCommand(), liveCommand(), ftdcCommand(),
			drainCommand(), verifyCommand(), gcCommand(), hostCommand(), doctorCommand(), nodesCommand(), metricsCommand(), jobstatsCommand(), sonarCommand(), powerapiCommand(), streamCommand(),
		},
		Action: func(c *cli.Context) error {
			switch verb, of := c.Args().First(), c.Args().Get(1); {
			case verb == "help" && c.App.Command(of) != nil:
				return cli.ShowCommandHelp(c, of)
			case verb == "version":
				cli.ShowVersion(c)
				return nil
			case verb != "" && verb != "help":
				return rtcli.Usage("%q is not a verb; see rt-spool --help", verb)
			}
			return cli.ShowAppHelp(c)
		},
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\n" + exitHelp,
	}
	explainUsageErrors(app.Commands)
	return app
}

func explainUsageErrors(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = onUsageError
		explainUsageErrors(c.Subcommands)
	}
}

// load reads the configuration and applies the flags.
func load(c *cli.Context) (config.Config, error) {
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return cfg, misconfigured(err)
	}
	if c.IsSet("spool") {
		cfg.Spool.Dir = c.String("spool")
	}
	return cfg, nil
}

// withConfig is the action of a verb that needs the configuration.
func withConfig(run func(*cli.Context, config.Config) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		cfg, err := load(c)
		if err != nil {
			return err
		}
		return run(c, cfg)
	}
}

var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print one JSON document"}
