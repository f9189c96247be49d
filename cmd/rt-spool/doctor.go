package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/doctor"
	"github.com/resource-tracker/rt/cmd/internal/hook"
	"github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/drain"
	"github.com/resource-tracker/rt/upload/streaming"
)

// foundProblems is the exit status of a doctor that found problems. The output describes them.
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
			&cli.BoolFlag{Name: "try", Usage: "on a compute node: run a job of one second with srun, and check its report"},
			&cli.StringFlag{Name: "role", Usage: "check a machine of this `ROLE` only: node, login or receiver (default: all roles that the configuration and the programs suggest)"},
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
	var roles []doctor.Role
	switch role := doctor.Role(c.String("role")); role {
	case "":
		roles = d.FindRoles()
	case doctor.Node, doctor.Login, doctor.Receiver:
		roles = []doctor.Role{role}
	default:
		return rtcli.Usage("--role %q: it is none of node, login and receiver", role)
	}
	lacksNode := c.Bool("try") && !slices.Contains(roles, doctor.Node)
	if lacksNode {
		return rtcli.Usage("--try needs a compute node, and this is a %s; see --role", doctor.Title(roles))
	}
	checks := d.Run(c.Context, roles...)
	if c.Bool("try") {
		say(c, "--try runs a job of one second; if this node has no free CPU in %.0f s, the job is removed from the queue", doctor.TryStart.Seconds())
		checks = append(checks, d.Try(c.Context)...)
	}
	var err error
	if c.Bool("json") {
		err = rtcli.PrintJSON(c.App.Writer, checks)
	} else {
		err = doctor.Print(c.App.Writer, roles, checks, c.Bool("all"))
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
	cfg.Sentinel.S3Endpoint = cmp.Or(cfg.Sentinel.S3Endpoint, drain.S3Endpoint(os.Getenv)) // as drain does
	d := &doctor.Doctor{
		Files: doctor.Files{Root: "/"}, ConfigFile: cmp.Or(c.String("config"), config.DefaultPath), ConfigErr: err, Config: cfg,
		SlurmConf: os.Getenv("SLURM_CONF"), EnvToken: os.Getenv(streaming.EnvToken), Version: rt.VersionLine("rt-spool"),
		Command: doctor.Command, Space: doctor.ReadSpace, Munge: client.ByMunge, HTTP: serviceClient, Local: localClient, GPUs: readGPUs,
		Wait: recovery.Pause, Now: time.Now,
	}
	d.Hostname, err = os.Hostname()
	if err != nil {
		d.Hostname = "localhost"
	}
	d.PrologLimit, d.EpilogLimit = hook.Limits(cfg.Hooks)
	if abs, err := filepath.Abs(d.ConfigFile); err == nil {
		d.ConfigFile = abs
	}
	d.Stores = func(ctx context.Context) ([]doctor.Check, error) {
		return examineSite(ctx, siteProgram(), d.ConfigFile)
	}
	if exe, err := os.Executable(); err == nil {
		bin := filepath.Dir(exe)
		d.Programs = []string{bin, filepath.Join(bin, "../libexec/rt"), "/usr/local/libexec/rt", "/usr/libexec/rt"}
	}
	return d
}

// serviceClient returns a client for a receiver or a site service. It also trusts the certificates in caFile, if set.
func serviceClient(caFile string) (*http.Client, error) {
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
}

// readGPUs reads the GPUs of this machine.
func readGPUs(ctx context.Context) ([]rt.GPUReading, error) {
	return gpu.ReadOnce(ctx, gpu.New("/dev", "/sys"))
}

// localClient returns a client for the service of this machine. It does not check the certificate, which is for the
// name of the site. The doctor checks the certificate in its file.
func localClient(listen string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	if path, isUnix := strings.CutPrefix(listen, "unix:"); isUnix {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// examineSite runs rt-site doctor, which becomes the user of the service if this process is root.
func examineSite(ctx context.Context, program, configFile string) (checks []doctor.Check, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--config", configFile, "doctor", "--json")
	cmd.WaitDelay = time.Second
	cmd.Dir = "/"
	out, err := cmd.Output()
	exit, isExit := errors.AsType[*exec.ExitError](err)
	if err != nil && !isExit {
		return nil, fmt.Errorf("run rt-site doctor: %w", err)
	}
	err = json.Unmarshal(out, &checks)
	if isExit && err != nil {
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("rt-site doctor: %w", err)
	}
	return checks, nil
}

// siteProgram returns the path of rt-site, which is installed in the directory of this program.
func siteProgram() string {
	exe, err := os.Executable()
	if err != nil {
		return "rt-site"
	}
	return filepath.Join(filepath.Dir(exe), "rt-site")
}
