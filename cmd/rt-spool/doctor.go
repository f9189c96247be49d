package main

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/internal/doctor"
	"github.com/resource-tracker/rt/internal/hook"
	slurmhook "github.com/resource-tracker/rt/slurm/hook"
	"github.com/resource-tracker/rt/upload"
)

// foundProblems is the exit status of a doctor that found problems: its output describes them.
type foundProblems int

func (foundProblems) Error() string { return "the doctor found problems" }

// The exit statuses of doctor.
const (
	exitWarnings foundProblems = 1
	exitFailures foundProblems = 2
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check Slurm, the kernel, the files of rt and the receiver, and print how to fix what is wrong",
		Flags: []cli.Flag{
			jsonFlag,
			&cli.BoolFlag{Name: "all", Usage: "print the checks that are ok too"},
			&cli.StringFlag{Name: "role", Usage: "check a machine of this `ROLE`: node, login or receiver (default: from the configuration)"},
		},
		Description: "The exit status is 0 if nothing is wrong, 1 with warnings, 2 with failures.",
		Action:      runDoctor,
	}
}

func runDoctor(c *cli.Context) error {
	if c.Args().Present() {
		return rtcli.Usage("doctor takes no argument; see rt-spool doctor --help")
	}
	d := newDoctor(c)
	role := doctor.Role(c.String("role"))
	switch role {
	case "":
		role = d.FindRole()
	case doctor.Node, doctor.Login, doctor.Receiver:
	default:
		return rtcli.Usage("--role %q: it is none of node, login and receiver", role)
	}
	checks := d.Run(c.Context, role)
	var err error
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, checks)
	} else {
		err = doctor.Print(c.App.Writer, role, checks, c.Bool("all"))
	}
	switch worst := doctor.Worst(checks); {
	case err != nil:
		return err
	case worst == doctor.Failure:
		return exitFailures
	case worst == doctor.Warning:
		return exitWarnings
	}
	return nil
}

// newDoctor returns the doctor of this machine. An error of the configuration is one of its checks.
func newDoctor(c *cli.Context) *doctor.Doctor {
	cfg, err := load(c)
	if err != nil {
		cfg = config.Default()
	}
	d := &doctor.Doctor{
		Root: "/", ConfigFile: cmp.Or(c.String("config"), config.DefaultPath), ConfigErr: err, Config: cfg,
		SlurmConf: os.Getenv("SLURM_CONF"), EnvToken: os.Getenv(delivery.EnvToken), Version: rt.VersionLine("rt-spool"),
		Command: doctor.Command, Space: doctor.ReadSpace, Now: time.Now,
		HTTP: func(caFile string) (*http.Client, error) {
			var pem []byte
			if caFile != "" {
				var err error
				pem, err = os.ReadFile(caFile)
				if err != nil {
					return nil, err
				}
			}
			client, err := upload.NewHTTPClient(pem)
			if err != nil {
				return nil, err
			}
			return upload.WithoutRedirects(client), nil
		},
		Breaker: func(dir string) (doctor.Breaker, error) {
			b, err := slurmhook.State{Dir: dir}.ReadBreaker(cfg.Hooks.BreakerFailures, cfg.Hooks.BreakerReset.Duration, time.Now())
			return doctor.Breaker(b), err
		},
	}
	d.PrologLimit, d.EpilogLimit = hook.Limits(cfg.Hooks)
	if abs, err := filepath.Abs(d.ConfigFile); err == nil {
		d.ConfigFile = abs
	}
	if exe, err := os.Executable(); err == nil {
		bin := filepath.Dir(exe)
		d.Programs = []string{bin, filepath.Join(bin, "../libexec/rt"), "/usr/local/libexec/rt", "/usr/libexec/rt"}
	}
	return d
}
