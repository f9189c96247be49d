package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
)

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.HelpPrinter = printHelp
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
		Description: `JOB is a job id (12), a task of an array (12_3), a step (12.0), the name of
a run as ls shows it, or the path of a spool file.`,
		Commands: []*cli.Command{
			lsCommand(), reportCommand(), exportCommand(), importCommand(), topCommand(), liveCommand(), ftdcCommand(),
			drainCommand(), serveCommand(), verifyCommand(), gcCommand(), hostCommand(), sonarCommand(), powerapiCommand(),
		},
		Action: func(c *cli.Context) error {
			switch verb, of := c.Args().First(), c.Args().Get(1); {
			case verb == "help" && c.App.Command(of) != nil:
				return cli.ShowCommandHelp(c, of)
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

var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print one JSON document"}
