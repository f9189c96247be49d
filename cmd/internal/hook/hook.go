// Package hook is the common part of rt-prolog and rt-epilog. They read the configuration, do their
// work before a deadline, and log an error once. They always exit 0, because Slurm drains the node
// of a hook that fails.
package hook

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/logging"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/slurm/environ"
	slurmhook "github.com/resource-tracker/rt/slurm/launch"
)

// Invocation has a hook's arguments, environment and outputs.
type Invocation struct {
	Program  string    // "rt-prolog" or "rt-epilog"
	Args     []string  // without the program's name
	Environ  []string  // os.Environ()
	Stdout   io.Writer // for --version and --help only
	DevLog   string    // the socket of syslog
	Fallback string    // the log file if there is no syslog

	Slack   time.Duration // limit for everything but the wait for the tracker
	LogTime time.Duration // limit for writing a message; after it the message is lost
	Exit    func(status int)

	// isReported is set in the Epilog: it does not log errors of the configuration, because
	// the job's Prolog has logged them.
	isReported bool
}

// A hook takes at most its configured time (hooks.ready_timeout or hooks.stop_timeout), slack and
// three times logTime. It then exits, even if a system call is still blocked.
//   - readTime limits reading the configuration. It is a part of slack.
//   - slack is Invocation.Slack of Slurm's hooks: hundreds of hooks that start at once need seconds.
//   - logTime limits each log message, and counting a failure in the breaker.
const (
	readTime = 3 * time.Second
	slack    = 4 * time.Second
	logTime  = 100 * time.Millisecond
)

// System returns the options of a hook that Slurm started.
func System(program string) Invocation {
	return Invocation{
		Program: program, Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout,
		DevLog: logging.DevLog, Fallback: logging.FallbackFile,
		Slack: slack, LogTime: logTime, Exit: os.Exit,
	}
}

// Prolog is rt-prolog.
func Prolog(opts Invocation) {
	run(opts, startTracker, func(c config.Hooks) time.Duration { return c.ReadyTimeout.Duration })
}

// Epilog is rt-epilog.
func Epilog(opts Invocation) {
	opts.isReported = true
	run(opts, stopTracker, func(c config.Hooks) time.Duration { return c.StopTimeout.Duration })
}

// Limits returns the longest time that each hook takes.
func Limits(c config.Hooks) (prolog, epilog time.Duration) {
	const more = slack + 3*logTime
	return c.ReadyTimeout.Duration + more, c.StopTimeout.Duration + more
}

// run does the hook's work within its configured time. Errors are in the log, and the status
// is 0 in any case. Each call that can wait for a file system has its own limit. The timer
// limits all other waits: it is set first and is never stopped, and its function does not wait.
func run(opts Invocation, do work, timing func(config.Hooks) time.Duration) {
	begin := time.Now()
	if !hasDescriptors() { // before the first timer
		printFewDescriptors(opts.Program)
		return
	}
	end := time.AfterFunc(opts.Slack+3*opts.LogTime, func() { opts.Exit(0) })
	env := environ.NewEnv(opts.Environ)

	var s settings
	err := recovery.AtMost(readTime, func() (err error) { s, err = opts.settings(); return err })
	if errors.Is(err, recovery.ErrLate) {
		opts.report(env, logging.Syslog, fmt.Errorf("reading the configuration took more than %s: nothing was done", readTime))
		return
	}
	if s.isBroken && opts.isReported {
		return
	}
	if err != nil || s.done {
		opts.report(env, logging.Syslog, err)
		return
	}
	limit := timing(s.cfg.Hooks) + opts.Slack
	left := limit - time.Since(begin)
	end.Reset(left + 3*opts.LogTime)
	h := new(slurmhook.Hook)
	err = recovery.AtMost(left, func() error {
		if disabled(s.cfg.Hooks.DisableFile) {
			return nil
		}
		if err := build(h, s.cfg, s.path); err != nil && !opts.isReported {
			return err
		}
		return do(h, env, time.Now().UTC()) // local time would load the time zone
	})
	if errors.Is(err, recovery.ErrLate) {
		err = opts.giveUp(h, limit)
	}
	opts.report(env, s.cfg.Log.Target, err)
}

// giveUp counts that the hook's work has taken longer than the limit, and returns the error.
func (o Invocation) giveUp(h *slurmhook.Hook, limit time.Duration) error {
	late := fmt.Errorf("gave up after %s", limit)
	err := recovery.AtMost(o.LogTime, func() error { return h.GaveUp(late) })
	if errors.Is(err, recovery.ErrLate) {
		return late
	}
	return err
}

// report logs the error of the hook's work to target, which is log.target or its default. env names the job.
func (o Invocation) report(env environ.Env, target string, err error) {
	if err == nil {
		return
	}
	// A message that cannot be written in time is lost, so that the job does not wait.
	_ = recovery.AtMost(o.LogTime, func() error {
		log := o.logger(target, jobOf(env))
		if errors.Is(err, slurmhook.ErrTracked) || errors.Is(err, slurmhook.ErrLate) {
			log.Warn(err.Error())
		} else {
			log.Error(err.Error())
		}
		return nil
	})
}

// settings are the flags and the configuration of a hook.
type settings struct {
	path string // of the configuration
	done bool   // the flags only print a text
	cfg  config.Config

	isBroken bool // the file has an error
}

// settings parses the flags and reads the configuration.
func (o Invocation) settings() (s settings, err error) {
	flags := flag.NewFlagSet(o.Program, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&s.path, "config", "", "configuration `FILE` (default "+config.DefaultPath+")")
	version := flags.Bool("version", false, "print the version and exit")
	err = flags.Parse(o.Args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(o.Stdout, "usage: %s [--config FILE]\n\nslurmd runs it, see slurm.conf(5). It always exits 0.\n\n", o.Program)
		flags.SetOutput(o.Stdout)
		flags.PrintDefaults()
		s.done = true
		return s, nil
	case err != nil:
		return s, fmt.Errorf("bad command line: %w", err)
	case *version:
		fmt.Fprintln(o.Stdout, rt.VersionLine(o.Program))
		s.done = true
		return s, nil
	case flags.NArg() > 0:
		return s, fmt.Errorf("bad command line: unexpected argument %q", flags.Arg(0))
	}
	s.cfg, err = config.Load(s.path)
	s.isBroken = err != nil
	return s, err
}

func (o Invocation) logger(target, job string) *slog.Logger {
	l := logging.New(logging.Places{Program: o.Program, Target: target, DevLog: o.DevLog, Fallback: o.Fallback})
	return l.With("job", job)
}

// jobOf returns the job for log lines, such as "job 12@n1".
func jobOf(env environ.Env) string {
	id, ok := env.Number("SLURM_JOB_ID", "SLURM_JOBID").Get()
	if !ok {
		return ""
	}
	return fmt.Sprintf("job %d@%s", id, cmp.Or(env.Text("SLURMD_NODENAME"), hostname()))
}

// build sets up the hook. No tracker runs as root because its user does not exist.
func build(h *slurmhook.Hook, cfg config.Config, path string) error {
	h.Tracker = cfg.Tracker.Path
	h.ConfigFile = path
	h.SpoolDir = cfg.Spool.Dir
	h.State = slurmhook.State{Dir: cfg.Tracker.StateDir}
	h.Counters = cfg.Perf != config.Perf{}
	h.ReadyTimeout = cfg.Hooks.ReadyTimeout.Duration
	h.StopTimeout = cfg.Hooks.StopTimeout.Duration
	h.Failures = cfg.Hooks.BreakerFailures
	h.Reset = cfg.Hooks.BreakerReset.Duration
	h.ProcRoot = "/proc"
	h.Prepare = func() error { return leaveJob(h.ProcRoot) }
	if cfg.Log.Target != logging.Syslog {
		h.OpenLog = func() (*os.File, error) { return logging.OpenFile(cfg.Log.Target) }
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
	if os.Geteuid() != 0 || cfg.Spool.User == "root" {
		return nil
	}
	h.User = trackerUser("/etc/passwd", cfg.Spool.User)
	if h.User == nil {
		return fmt.Errorf("spool.user %q is not in /etc/passwd: no tracker is started; create the user with \"useradd --system --user-group --no-create-home --home-dir /var/spool/rt --shell /usr/sbin/nologin %[1]s\", or set spool.user to another one", cfg.Spool.User)
	}
	return nil
}

// trackerUser returns the trackers' user from a file in the form of passwd(5), nil for none.
// It reads a local file: a directory service can take longer than a Prolog is allowed to.
func trackerUser(passwd, name string) *slurmhook.User {
	fields := config.Account(passwd, 0, name)
	if len(fields) < 4 {
		return nil
	}
	uid, err1 := strconv.ParseUint(fields[2], 10, 32)
	gid, err2 := strconv.ParseUint(fields[3], 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	return &slurmhook.User{UID: uint32(uid), GID: uint32(gid)}
}

const (
	fewestDescriptors = 32   // enough for a hook
	raisedDescriptors = 1024 // for the hook and its tracker, if the limit is lower than fewestDescriptors
)

// hasDescriptors checks the limit on open files (RLIMIT_NOFILE). It raises a limit that is too low,
// if the process may. At its first timer the Go runtime opens two descriptors, and ends the program
// with status 2 if that fails. The runtime has already raised the soft limit to the hard limit.
func hasDescriptors() bool {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	isEnough := err != nil || limit.Cur >= fewestDescriptors
	return isEnough || unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: raisedDescriptors, Max: raisedDescriptors}) == nil
}

// printFewDescriptors prints the error to standard error, because a log would need a descriptor.
func printFewDescriptors(program string) {
	_, _ = syscall.Write(2, []byte(program+": error: the limit on open files is less than 32 and cannot be raised: nothing was done\n"))
}
