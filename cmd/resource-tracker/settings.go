package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/telemetry"
)

// maxInterval is a year: more is a mistake, and far more overflows a clock.
const maxInterval = 365 * 24 * 60 * 60 // seconds

// pidVariable is the environment variable of --pid.
const pidVariable = "RESOURCE_TRACKER_PID"

// settings are the result of flags, environment and configuration.
type settings struct {
	interval time.Duration
	csv      bool
	pid      int // 0: none
	scope    rt.Scope
	meta     rt.Metadata
	command  []string

	output   string // a file; empty for none
	toStdout bool
	spoolDir string // empty for no spool
	anySpool bool   // spoolDir is a default, and may be empty: another directory may replace it

	streaming *streaming         // nil: nothing is sent
	listen    *telemetry.Address // nil: no telemetry
	connect   *telemetry.Address // of a GemPBA program; nil for none

	gpu                     bool
	procfs, sysfs, cgroupfs string // cgroupfs: empty for the kernel's mounts
}

func newSettings(c *commandLine) (s settings, err error) {
	file := readConfig(c.text("config"))
	s = settings{
		command: c.command,
		output:  c.text("output"), spoolDir: c.text("spool"),
		procfs: c.text("path.procfs"), sysfs: c.text("path.sysfs"), cgroupfs: c.text("path.cgroupfs"),
	}
	seconds := file.interval
	if text := c.text("interval"); c.values["interval"] != nil {
		seconds, err = parseInterval(text)
		if err != nil {
			return s, err
		}
	}
	s.interval = time.Duration(seconds) * time.Second
	s.pid, err = choosePID(c, file.pid)
	if err != nil {
		return s, err
	}
	s.csv, err = choose(c, "format", "json", "csv")
	if err != nil {
		return s, err
	}
	s.gpu, err = choose(c, "gpu", "off", "auto")
	if err != nil {
		return s, err
	}
	job, err := choose(c, "scope", string(rt.ScopeNode), string(rt.ScopeJob))
	if err != nil {
		return s, err
	}
	s.scope = rt.ScopeNode
	if job {
		if !insideSlurm() {
			return s, cli.Usage("--scope job: this is not a Slurm job, SLURM_JOB_ID is not set; leave it out for the node's figures")
		}
		s.scope = rt.ScopeJob
	}
	s.meta, err = metadata(c, file.jobName)
	if err != nil {
		return s, err
	}
	s.streaming, err = newStreaming(os.Getenv)
	if err != nil {
		return s, err
	}
	s.listen, err = address("--listen", c.text("listen"))
	if err != nil {
		return s, err
	}
	s.connect = file.connect
	s.chooseOutput(c)
	return s, nil
}

// chooseOutput decides where samples go without a flag: with a command in a Slurm job,
// standard output is the job's, and stays clean.
func (s *settings) chooseOutput(c *commandLine) {
	isSet := s.output != "" || s.spoolDir != "" || c.on("quiet")
	if !isSet && len(s.command) > 0 && insideSlurm() {
		s.spoolDir, s.anySpool = stateDir(), true
		return
	}
	s.toStdout = !isSet
}

// address parses where to listen; nil for an empty text.
func address(flag, text string) (*telemetry.Address, error) {
	if text == "" {
		return nil, nil
	}
	a, err := telemetry.ParseAddress(text)
	if err != nil {
		return nil, cli.Usage("%s %w", flag, err)
	}
	return &a, nil
}

// hasSpool reports whether the readings go to a spool.
func (s *settings) hasSpool() bool { return s.spoolDir != "" || s.anySpool }

func insideSlurm() bool { return os.Getenv("SLURM_JOB_ID") != "" }

// keepsJob reports whether the spool gets the figures of the surrounding Slurm job, with its
// steps and tasks: other tasks of the step have no tracker of their own. The samples that are
// printed still follow --scope.
func (s *settings) keepsJob() bool {
	return insideSlurm() && len(s.command) > 0 && s.hasSpool()
}

// stateDir is the user's default spool: $XDG_STATE_HOME/rt, by default
// ~/.local/state/rt; empty without a home.
func stateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rt")
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local/state/rt")
	}
	return ""
}

// parseInterval parses a whole number of seconds.
func parseInterval(text string) (uint64, error) {
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seconds < 1 || seconds > maxInterval {
		return 0, cli.Usage("--interval %q: give a whole number of seconds from 1 to %d (RESOURCE_TRACKER_INTERVAL sets it too)", text, maxInterval)
	}
	return seconds, nil
}

// choosePID returns the pid of the flag, the variable or the file, in this order; a command's
// own pid overrides the latter two.
func choosePID(c *commandLine, fromFile int) (int, error) {
	text := c.text("pid")
	switch {
	case len(c.command) > 0 && !c.flagged["pid"]:
		return 0, nil
	case len(c.command) > 0:
		return 0, cli.Usage("--pid and a command: the command's own process is tracked, give only one of them")
	case c.values["pid"] == nil:
		return fromFile, nil
	}
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid < 1 {
		return 0, cli.Usage("--pid %q: give the number of a process, at least 1 (%s sets it too)", text, pidVariable)
	}
	return int(pid), nil
}

// choose reports whether a flag has the second of its two values.
func choose(c *commandLine, name, first, second string) (bool, error) {
	switch v := c.text(name); v {
	case first:
		return false, nil
	case second:
		return true, nil
	default:
		return false, cli.Usage("--%s %q: it is either %s or %s", name, v, first, second)
	}
}

func metadata(c *commandLine, jobName string) (rt.Metadata, error) {
	m := rt.Metadata{}
	for _, field := range rt.MetadataFields {
		*m.Field(field) = c.text(flagName(field))
	}
	if m.JobName == "" {
		m.JobName = jobName
	}
	for _, tag := range c.values["tag"] {
		key, value, ok := strings.Cut(tag, "=")
		if !ok || key == "" {
			return m, cli.Usage("--tag %q: give KEY=VALUE", tag)
		}
		if m.Tags == nil {
			m.Tags = map[string]string{}
		}
		m.Tags[key] = value
	}
	return m, nil
}
