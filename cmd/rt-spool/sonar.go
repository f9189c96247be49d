package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/sonar"
)

func sonarCommand() *cli.Command {
	return &cli.Command{
		Name:            "sonar",
		Usage:           "print what sonar ps, sonar sysinfo and sonar slurm print",
		HideHelpCommand: true,
		Subcommands:     []*cli.Command{sonarPsCommand(), sonarSysinfoCommand(), sonarSlurmCommand()},
		Action: func(c *cli.Context) error {
			if what := c.Args().First(); what != "" {
				return rtcli.Usage("sonar %q: it is ps, sysinfo or slurm", what)
			}
			return rtcli.Usage("sonar takes ps, sysinfo or slurm; see rt-spool sonar --help")
		},
	}
}

func sonarSysinfoCommand() *cli.Command {
	return &cli.Command{
		Name:  "sysinfo",
		Usage: "print what this host is: one JSON object, or free CSV",
		Flags: sonarForms(),
		Action: func(c *cli.Context) error {
			asJSON, err := sonarJSON(c, true)
			if err != nil {
				return err
			}
			return sonar.WriteSysinfo(c.Context, c.App.Writer, gpu.New("/dev", "/sys", gpu.WithDetails()), fqdn(c.Context), asJSON)
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

func sonarPsCommand() *cli.Command {
	return &cli.Command{
		Name:  "ps",
		Usage: "print a record for each process on this host",
		Flags: append(sonarForms(),
			&cli.BoolFlag{Name: "rollup", Usage: "one record for all processes of a job that have the same command"},
			&cli.BoolFlag{Name: "load", Usage: "also print the load of the host's CPUs and GPUs"},
			&cli.Float64Flag{Name: "min-cpu-percent", Usage: "only processes that used at least `PERCENT` of a core since their start"},
			&cli.Float64Flag{Name: "min-mem-percent", Usage: "only processes that use at least `PERCENT` of the host's memory"},
			&cli.Float64Flag{Name: "min-cpu-time", Usage: "only processes with a CPU time of at least `SECONDS`"},
			&cli.BoolFlag{Name: "exclude-system-jobs", Usage: "leave out the processes of user ids below 1000"},
			&cli.StringFlag{Name: "exclude-users", Usage: "leave out the processes of these users: `NAME,...`"},
			&cli.StringFlag{Name: "exclude-commands", Usage: "leave out the commands that begin so: `PREFIX,...`"},
		),
		Action: runSonarPs,
	}
}

func runSonarPs(c *cli.Context) error {
	asJSON, err := sonarJSON(c, false)
	if err != nil {
		return err
	}
	o := sonar.PsOptions{
		Filter: sonar.Filter{
			MinCPU: limitFlag(c, "min-cpu-percent"), MinMemory: limitFlag(c, "min-mem-percent"), MinCPUTime: limitFlag(c, "min-cpu-time"),
			NoSystem: c.Bool("exclude-system-jobs"), ExcludeUsers: c.String("exclude-users"), ExcludeCommands: c.String("exclude-commands"),
		},
		RollUp: c.Bool("rollup"), Load: c.Bool("load"), JSON: asJSON,
	}
	m, err := sonar.ReadMachine(c.Context, proc.NewFS("/proc", "/sys"), gpu.New("/dev", "/sys", gpu.WithProcesses(), gpu.WithDetails()))
	if err != nil {
		return err
	}
	o.Hostname = fqdn(c.Context)
	return rtcli.Buffered(c.App.Writer, func(w io.Writer) error { return m.WritePs(w, o) })
}

// limitFlag returns the value of a flag, absent if it was not given.
func limitFlag(c *cli.Context, name string) rt.Opt[float64] {
	if c.IsSet(name) {
		return rt.Some(c.Float64(name))
	}
	return rt.None[float64]()
}

func sonarSlurmCommand() *cli.Command {
	return &cli.Command{
		Name:  "slurm",
		Usage: "print the jobs that ended recently, from sacct",
		Flags: append(sonarForms(),
			&cli.IntFlag{Name: "window", Value: 90, Usage: "jobs of the last `MINUTES`"},
			&cli.StringFlag{Name: "span", Usage: "jobs of these days: `FROM,TO`, each yyyy-mm-dd"},
			&cli.BoolFlag{Name: "deluge", Usage: "also jobs that wait or run"},
			&cli.DurationFlag{Name: "deadline", Value: 3 * time.Minute, Usage: "the time limit of sacct is `T`"},
		),
		Action: withConfig(runSonarSlurm),
	}
}

func runSonarSlurm(c *cli.Context, cfg config.Config) error {
	asJSON, err := sonarJSON(c, false)
	if err != nil {
		return err
	}
	args, err := sacctArgs(c, time.Now())
	if err != nil {
		return err
	}
	program := cmp.Or(sacctProgram(cfg.Drain), "sacct") // which then reports that it is not there
	ctx, cancel := context.WithTimeout(c.Context, c.Duration("deadline"))
	defer cancel()
	jobs, err := sonar.SacctJobs(ctx, program, args)
	if len(jobs) == 0 && err != nil {
		return sonar.WriteFailure(c.App.Writer, err, asJSON)
	}
	return errors.Join(err, rtcli.Buffered(c.App.Writer, func(w io.Writer) error { return sonar.WriteJobs(w, jobs, asJSON) }))
}

// sacctArgs returns the arguments of the call of sacct.
func sacctArgs(c *cli.Context, now time.Time) ([]string, error) {
	from, to := now.Add(-time.Duration(c.Int("window"))*time.Minute), now
	switch {
	case c.IsSet("span") && c.IsSet("window"):
		return nil, rtcli.Usage("--span and --window exclude each other")
	case c.Int("window") <= 0:
		return nil, rtcli.Usage("--window %d: minutes, 1 or more", c.Int("window"))
	case c.Duration("deadline") <= 0:
		return nil, rtcli.Usage("--deadline %s: it must be more than nothing", c.Duration("deadline"))
	case c.IsSet("span"):
		first, last, _ := strings.Cut(c.String("span"), ",")
		var err1, err2 error
		from, err1 = time.ParseInLocation(time.DateOnly, first, time.Local)
		to, err2 = time.ParseInLocation(time.DateOnly, last, time.Local)
		if err1 != nil || err2 != nil || to.Before(from) {
			return nil, rtcli.Usage("--span %q: two days as 2026-03-01,2026-03-02, the earlier first", c.String("span"))
		}
		to = to.AddDate(0, 0, 1).Add(-time.Second) // all of the last day
	}
	return sonar.SacctArgs(from, to, c.Bool("deluge")), nil
}
