// Package hook is what rt-prolog and rt-epilog have in common: they read the
// configuration, do their work within a deadline, log what goes wrong once, and
// exit 0 on every path, because Slurm drains a node whose hook fails.
package hook

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/logging"
	"github.com/resource-tracker/rt/slurm"
)

// Options are what a hook gets from its surroundings.
type Options struct {
	Program  string    // "rt-prolog" or "rt-epilog"
	Args     []string  // without the program's name
	Environ  []string  // os.Environ()
	Stdout   io.Writer // for --version and --help alone
	DevLog   string    // the socket of syslog
	Fallback string    // the log file where there is no syslog
}

// work is Prolog or Epilog of a slurm.Hook.
type work func(h *slurm.Hook, env slurm.Env, now time.Time) error

// readTime is how long the configuration may take to read; slack is what a hook
// may take beside its configured time. Then it ends by itself, whatever it waits for.
const (
	readTime = 3 * time.Second
	slack    = time.Second
)

// System returns the options of a hook that Slurm started.
func System(program string) Options {
	return Options{
		Program: program, Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout,
		DevLog: logging.DevLog, Fallback: logging.FallbackFile,
	}
}

// Prolog is rt-prolog.
func Prolog(opts Options) {
	run(opts, (*slurm.Hook).Prolog, func(c config.Hooks) time.Duration { return c.ReadyTimeout.Duration })
}

// Epilog is rt-epilog.
func Epilog(opts Options) {
	run(opts, (*slurm.Hook).Epilog, func(c config.Hooks) time.Duration { return c.StopTimeout.Duration })
}

// run does the hook's work, which may take a configured time. It never fails and
// never panics: what went wrong is in the log. It may end the process, with status 0.
func run(opts Options, do work, timing func(config.Hooks) time.Duration) {
	env := slurm.NewEnv(opts.Environ)
	log := opts.logger(logging.Syslog)
	subject := jobOf(env)
	defer func() {
		if p := recover(); p != nil {
			log.Error(subject, fmt.Errorf("this is a defect of %s, please report it: %v", opts.Program, p))
		}
	}()
	watchdog := time.AfterFunc(readTime, func() {
		log.Error(subject, fmt.Errorf("reading the configuration took more than %s: nothing was done", readTime))
		os.Exit(0)
	})
	defer watchdog.Stop()

	path, done, err := opts.parse()
	if done {
		return
	}
	if err != nil {
		log.Error(subject, err)
		return
	}
	cfg, err := config.Load(path)
	if err != nil {
		log.Error(subject, err)
		return
	}
	watchdog.Stop()
	log = opts.logger(cfg.Log.Target)
	limit := timing(cfg.Hooks) + slack
	watchdog = time.AfterFunc(limit, func() {
		log.Error(subject, fmt.Errorf("gave up after %s", limit))
		os.Exit(0)
	})
	h := build(cfg, path)
	err = do(h, env, time.Now())
	// From here the watchdog has nothing to say: one fault is one line.
	if !watchdog.Stop() {
		select {} // it is about to end the process
	}
	switch {
	case errors.Is(err, slurm.ErrTracked):
		log.Warning(subject, err.Error())
	case err != nil:
		log.Error(subject, err)
	}
}

// parse reads the flags; done says that they asked for nothing but a text.
func (o Options) parse() (path string, done bool, err error) {
	flags := flag.NewFlagSet(o.Program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&path, "config", "", "configuration `FILE` (default "+config.DefaultPath+")")
	version := flags.Bool("version", false, "print the version and exit")
	err = flags.Parse(o.Args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(o.Stdout, "usage: %s [--config FILE]\n\nIt is run by slurmd, see slurm.conf(5), and always exits 0.\n\n", o.Program)
		flags.SetOutput(o.Stdout)
		flags.PrintDefaults()
		return "", true, nil
	case err != nil:
		return "", false, fmt.Errorf("bad command line: %w", err)
	case *version:
		fmt.Fprintln(o.Stdout, o.Program, rt.Version)
		return "", true, nil
	case flags.NArg() > 0:
		return "", false, fmt.Errorf("bad command line: unexpected argument %q", flags.Arg(0))
	}
	return path, false, nil
}

func (o Options) logger(target string) *logging.Logger {
	return logging.New(logging.Options{Program: o.Program, Target: target, DevLog: o.DevLog, Fallback: o.Fallback})
}

// jobOf names the job in log lines.
func jobOf(env slurm.Env) string {
	id, ok := env.Number("SLURM_JOB_ID", "SLURM_JOBID").Get()
	if !ok {
		return ""
	}
	node := env.Text("SLURMD_NODENAME")
	if node == "" {
		node = hostname()
	}
	return fmt.Sprintf("job %d@%s", id, node)
}

// build makes the hook of the configuration.
func build(cfg config.Config, path string) *slurm.Hook {
	h := &slurm.Hook{
		Tracker:      cfg.Tracker.Path,
		ConfigFile:   path,
		SpoolDir:     cfg.Spool.Dir,
		State:        slurm.State{Dir: cfg.Tracker.StateDir},
		Interval:     cfg.Tracker.Interval.Duration,
		ReadyTimeout: cfg.Hooks.ReadyTimeout.Duration,
		StopTimeout:  cfg.Hooks.StopTimeout.Duration,
		DisableFile:  cfg.Hooks.DisableFile,
		Failures:     cfg.Hooks.BreakerFailures,
		Reset:        cfg.Hooks.BreakerReset.Duration,
		ProcRoot:     "/proc",
		Hostname:     hostname(),
		GroupName:    func(gid uint64) string { return groupName("/etc/group", gid) },
	}
	if cfg.Log.Target != logging.Syslog {
		h.LogFile = cfg.Log.Target
	}
	if path != "" {
		if abs, err := filepath.Abs(path); err == nil {
			h.ConfigFile = abs // the tracker starts in another directory
		}
	}
	if h.Tracker == "" {
		if exe, err := os.Executable(); err == nil {
			h.Tracker = filepath.Join(filepath.Dir(exe), "rt-tracker")
		}
	}
	if os.Geteuid() == 0 {
		h.User = trackerUser("/etc/passwd", cfg.Spool.User)
	}
	return h
}

// hostname is the node's name where Slurm does not give one: up to the first dot.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	for i := range len(name) {
		if name[i] == '.' {
			return name[:i]
		}
	}
	return name
}
