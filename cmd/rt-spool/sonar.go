package main

import (
	"context"
	"net"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
)

func sonarCommand() *cli.Command {
	return &cli.Command{
		Name:            "sonar",
		Usage:           "print what sonar ps, sonar sysinfo and sonar slurm print",
		HideHelpCommand: true,
		OnUsageError:    onUsageError,
		Subcommands:     []*cli.Command{sonarPsCommand(), sonarSysinfoCommand(), sonarSlurmCommand()},
		Action: func(c *cli.Context) error {
			if what := c.Args().First(); what != "" {
				return rtcli.Usage("sonar %q: it is ps, sysinfo or slurm", what)
			}
			return rtcli.Usage("sonar takes ps, sysinfo or slurm; see rt-spool sonar --help")
		},
	}
}

// sonarForms returns the flags for the format of a record.
func sonarForms() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "csv", Usage: "print free CSV"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON"},
	}
}

// sonarJSON reports whether to print JSON: as the flags say, else the default.
func sonarJSON(c *cli.Context, otherwise bool) (bool, error) {
	switch {
	case c.NArg() > 0:
		return false, rtcli.Usage("sonar %s takes no arguments", c.Command.Name)
	case c.Bool("csv") && c.Bool("json"):
		return false, rtcli.Usage("--csv and --json exclude each other")
	case c.Bool("csv"):
		return false, nil
	case c.Bool("json"):
		return true, nil
	}
	return otherwise, nil
}

// fqdn returns the name of this host, with its domain if the resolver answers soon.
func fqdn(ctx context.Context) string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		name = "localhost"
	}
	if strings.Contains(name, ".") {
		return name
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	full, err := net.DefaultResolver.LookupCNAME(ctx, name)
	full = strings.TrimSuffix(full, ".")
	if err != nil || !strings.HasPrefix(full, name+".") {
		return name
	}
	return full
}
