package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
)

func newApp(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:      "resource-tracker",
		Usage:     "sample the use of a machine, or of a command and the machine around it",
		UsageText: "resource-tracker [flags]\nresource-tracker [flags] [--] command [args...]",
		Description: "Each flag wins over its environment variable, this over the configuration file, and this\n" +
			"over the default. Flags end at the first word that is none: the rest is the command's.\n" +
			"Inside a Slurm job, around a command, samples go to a spool instead of standard output.",
		HideHelpCommand:           true,
		HideVersion:               true, // --version is a flag of ours: -v stays free
		DisableSliceFlagSeparator: true, // a tag's value may hold a comma
		Writer:                    stdout,
		ErrWriter:                 stderr,
		ExitErrHandler:            func(*cli.Context, error) {}, // run has the one table of statuses
		OnUsageError: func(_ *cli.Context, err error, _ bool) error {
			return usage("%w; see resource-tracker --help", err)
		},
		Flags:                 append(flags(), metadataFlags()...),
		CustomAppHelpTemplate: cli.AppHelpTemplate + "\n" + exitHelp,
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				_, err := fmt.Fprintf(stdout, "resource-tracker %s\n", rt.Version)
				return err
			}
			s, err := newSettings(c)
			switch {
			case err != nil:
				return err
			case len(s.command) > 0:
				return wrap(s)
			}
			return alone(s)
		},
	}
}

// flags are those of section 3.2 of the specification, and the suite's own. All
// take text, so that a mistake is told in our words, with what would be right.
func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "pid", Aliases: []string{"p"}, EnvVars: variable(pidVariable),
			Usage: "the root `PID` of the process tree to track"},
		&cli.StringFlag{Name: "interval", Aliases: []string{"i"}, EnvVars: variable("RESOURCE_TRACKER_INTERVAL"),
			Usage: "whole `SECONDS` between samples, at least 1 (default: 1)"},
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, EnvVars: variable("RESOURCE_TRACKER_CONFIG"), Value: "resource-tracker.toml",
			Usage: "TOML `FILE` with defaults; passed over where it is missing or broken"},
		&cli.StringFlag{Name: "format", Aliases: []string{"f"}, EnvVars: variable("RESOURCE_TRACKER_FORMAT"), Value: "json",
			Usage: "`FORMAT` of the samples: json or csv"},
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, EnvVars: variable("RESOURCE_TRACKER_OUTPUT"),
			Usage: "write the samples to `FILE`, not to standard output"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, EnvVars: variable("RESOURCE_TRACKER_QUIET"),
			Usage: "write no samples to standard output"},
		&cli.StringFlag{Name: "spool", EnvVars: variable("RESOURCE_TRACKER_SPOOL"),
			Usage: "keep the readings in a database in `DIR`, for rt-spool, not on standard output"},
		&cli.StringFlag{Name: "scope", EnvVars: variable("RESOURCE_TRACKER_SCOPE"), Value: string(rt.ScopeNode),
			Usage: "show the figures of the Slurm job around us, or of the node: `job|node`"},
		&cli.StringFlag{Name: "gpu", EnvVars: variable("RESOURCE_TRACKER_GPU"), Value: "auto",
			Usage: "look for GPUs: `auto|off`"},
		&cli.StringFlag{Name: "path.procfs", Value: "/proc", Usage: "`DIR` where procfs is mounted"},
		&cli.StringFlag{Name: "path.sysfs", Value: "/sys", Usage: "`DIR` where sysfs is mounted"},
		&cli.StringFlag{Name: "path.cgroupfs", Usage: "`DIR` where cgroups are mounted (default: as the kernel says)"},
		&cli.BoolFlag{Name: "version", Usage: "print the version and exit"},
	}
}

// metadataFlags are those of section 9.3.
func metadataFlags() []cli.Flag {
	var out []cli.Flag
	for _, field := range rt.MetadataFields {
		f := &cli.StringFlag{
			Name: flagName(field), EnvVars: variable("TRACKER_" + strings.ToUpper(field)),
			Usage: "label the run: `" + strings.ToUpper(field) + "`",
		}
		if field == "job_name" {
			f.Aliases = []string{"n"}
		}
		out = append(out, f)
	}
	return append(out, &cli.StringSliceFlag{Name: "tag", Usage: "label the run: `KEY=VALUE`, as often as you like"})
}

// variable is the environment variable of a flag. An empty one counts as not set.
func variable(name string) []string {
	if v, set := os.LookupEnv(name); set && v == "" {
		return nil
	}
	return []string{name}
}

func flagName(field string) string { return strings.ReplaceAll(field, "_", "-") }
