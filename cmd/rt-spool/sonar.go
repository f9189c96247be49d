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

// sonarForms are the flags that say in which form a record is printed.
func sonarForms() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "csv", Usage: "print free CSV"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON"},
	}
}

// sonarJSON says whether JSON is to be printed: as asked, or as it is without a word.
func sonarJSON(c *cli.Context, otherwise bool) (bool, error) {
	switch {
	case c.NArg() > 0:
		return false, rtcli.Usage("sonar %s takes no arguments", c.Command.Name)
	case c.Bool("csv") && c.Bool("json"):
		return false, rtcli.Usage("--csv and --json: one of them")
	case c.Bool("csv"):
		return false, nil
	case c.Bool("json"):
		return true, nil
	}
	return otherwise, nil
}

// fqdn is the name of this host with its domain, where the resolver knows it soon.
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
