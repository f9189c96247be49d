package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/gempba/live"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/upload/streaming"
)

// maxInterval is a year: more is a mistake, and far more overflows a clock.
const maxInterval = 365 * 24 * 60 * 60 // seconds

// The values of --dialect.
const (
	dialectSpec = "spec"
	dialectLive = "live"
)

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

	live     bool     // print in the dialect of the Rust tracker
	output   string   // a file; empty for none
	stream   *os.File // for samples; nil for none
	spoolDir string   // empty for no spool
	anySpool bool     // spoolDir is a default and may be empty or replaced

	uploads *uploads      // nil: nothing is sent
	listen  *live.Address // nil: no telemetry
	connect *live.Address // of a GemPBA program; nil for none

	orphans *orphans // of the command; nil without a command

	gpu                     bool
	procfs, sysfs, cgroupfs string // cgroupfs: empty for the kernel's mounts
}

func newSettings(c *commandLine) (settings, error) {
	file := readConfig(c.text("config"))
	s := settings{
		interval: c.interval(file.interval), pid: c.pid(file.pid),
		csv: c.choose("format", "json", "csv"), gpu: c.choose("gpu", "off", "auto"), scope: c.scope(),
		meta: c.metadata(file.jobName), command: c.command, live: c.dialect() == dialectLive,
		output: c.text("output"), spoolDir: c.text("spool"), connect: file.connect,
		procfs: c.text("path.procfs"), sysfs: c.text("path.sysfs"), cgroupfs: c.text("path.cgroupfs"),
	}
	if c.err == nil {
		s.uploads, c.err = newUploads(os.Getenv, c.dialect())
	}
	if text := c.text("listen"); text != "" {
		a, err := live.ParseAddress(text)
		if err != nil {
			c.fail("--listen %w", err)
		}
		s.listen = &a
	}
	s.chooseOutput(c)
	return s, c.err
}

// dialect returns the dialect that the user chose. If it is empty, samples are as specified, and
// the API determines the dialect of the upload.
func (c *commandLine) dialect() string {
	dialect := c.text("dialect")
	if dialect != "" {
		c.choose("dialect", dialectSpec, dialectLive)
	}
	return dialect
}

// chooseOutput prints no samples to the standard output of a command in a Slurm job. In the live
// dialect samples go to standard error, inside and outside a job.
func (s *settings) chooseOutput(c *commandLine) {
	isSet := s.output != "" || s.spoolDir != "" || c.on("quiet")
	switch {
	case isSet:
	case s.live:
		s.stream = os.Stderr
	case len(s.command) > 0 && insideSlurm():
		s.spoolDir, s.anySpool = stateDir(), true
	default:
		s.stream = os.Stdout
	}
}

// hasSpool reports whether the readings go to a spool.
func (s *settings) hasSpool() bool { return s.spoolDir != "" || s.anySpool }

func insideSlurm() bool { return os.Getenv("SLURM_JOB_ID") != "" }

// keepsJob reports whether the spool gets the figures of the surrounding Slurm job: other
// tasks of the step have no tracker of their own. Printed samples still follow --scope.
func (s *settings) keepsJob() bool {
	return insideSlurm() && len(s.command) > 0 && s.hasSpool()
}

// stateDir is the user's default spool; empty without a home of this user. With sudo, root can have the home of
// another user, who could lead root's files to any place with a link.
func stateDir() string {
	dir := cli.OwnSpool()
	if dir == "" || isForeign(dir) {
		return ""
	}
	return dir
}

// isForeign reports whether this process is root and another user can change the directory.
func isForeign(dir string) bool {
	if os.Geteuid() != 0 {
		return false
	}
	problem, err := file.Foreign(dir)
	return problem != "" || err != nil
}

// interval returns how often to sample; fromFile is the file's, in seconds.
func (c *commandLine) interval(fromFile uint64) time.Duration {
	seconds := fromFile
	if text := c.text("interval"); c.values["interval"] != nil {
		var err error
		seconds, err = strconv.ParseUint(text, 10, 64)
		if err != nil || seconds < 1 || seconds > maxInterval {
			c.fail("--interval %q: give a whole number of seconds from 1 to %d (RESOURCE_TRACKER_INTERVAL sets it too)", text, maxInterval)
		}
	}
	return time.Duration(seconds) * time.Second
}

// pid is from the flag, the variable or the file; a command overrides the latter two.
func (c *commandLine) pid(fromFile int) int {
	text := c.text("pid")
	switch {
	case len(c.command) > 0 && !c.flagged["pid"]:
		return 0
	case len(c.command) > 0:
		c.fail("--pid and a command: the command's own process is tracked, give only one of them")
	case c.values["pid"] == nil:
		return fromFile
	}
	pid, err := strconv.ParseInt(text, 10, 32)
	if err != nil || pid < 1 {
		c.fail("--pid %q: give the number of a process, at least 1 (%s sets it too)", text, pidVariable)
	}
	return int(pid)
}

// choose reports whether a flag has the second of its two values.
func (c *commandLine) choose(name, first, second string) bool {
	v := c.text(name)
	if v != first && v != second {
		c.fail("--%s %q: it is either %s or %s", name, v, first, second)
	}
	return v == second
}

func (c *commandLine) scope() rt.Scope {
	if !c.choose("scope", string(rt.ScopeNode), string(rt.ScopeJob)) {
		return rt.ScopeNode
	}
	if !insideSlurm() {
		c.fail("--scope job: this is not a Slurm job, SLURM_JOB_ID is not set; leave it out for the node's figures")
	}
	return rt.ScopeJob
}

func (c *commandLine) metadata(jobName string) rt.Metadata {
	m := rt.Metadata{}
	for _, field := range rt.MetadataFields {
		*m.Field(field) = c.text(flagName(field))
	}
	m.JobName = cmp.Or(m.JobName, jobName)
	for _, tag := range c.values["tag"] {
		key, value, ok := strings.Cut(tag, "=")
		if !ok || key == "" {
			c.fail("--tag %q: give KEY=VALUE", tag)
		}
		m.Merge(rt.Metadata{Tags: map[string]string{key: value}})
	}
	return m
}

// maxConfig limits what is read of a configuration file, in bytes.
const maxConfig = 1 << 20

// config is the content of the user's TOML file (section 3.3), with the defaults.
type config struct {
	jobName  string
	pid      int           // 0: none
	interval uint64        // seconds
	connect  *live.Address // of a GemPBA program; nil: none
}

// readConfig ignores a file or a key that is missing or invalid (section 3.3).
func readConfig(path string) config {
	c := config{interval: 1}
	if b, err := file.ReadSmall(path, maxConfig); err == nil {
		c.parse(b)
	}
	return c
}

func (c *config) parse(b []byte) {
	var doc map[string]any
	if toml.Unmarshal(b, &doc) != nil {
		return
	}
	job, _ := doc["job"].(map[string]any)
	tracker, _ := doc["tracker"].(map[string]any)
	if name, ok := job["name"].(string); ok {
		c.jobName = name
	}
	if pid, ok := job["pid"].(int64); ok && pid > 0 && pid == int64(int32(pid)) {
		c.pid = int(pid)
	}
	if secs, ok := tracker["interval_secs"].(int64); ok && secs >= 1 && secs <= maxInterval {
		c.interval = uint64(secs)
	}
	gempba, _ := doc["gempba"].(map[string]any)
	if text, ok := gempba["connect"].(string); ok {
		if a, err := live.ParseAddress(text); err == nil {
			c.connect = &a
		}
	}
}

// findSpool creates the directory of the spool. If the default one cannot be used (a network
// file system), it is a private one below TMPDIR. check is spool.CheckDir.
func (s *settings) findSpool(check func(dir string) error) (string, error) {
	if !s.anySpool {
		if err := os.MkdirAll(s.spoolDir, 0o700); err != nil {
			return "", fmt.Errorf("make the spool directory (--spool names another one): %w", err)
		}
		return s.spoolDir, nil
	}
	var failed error
	if s.spoolDir != "" {
		err := os.MkdirAll(s.spoolDir, 0o700)
		if err == nil {
			err = usable(s.spoolDir, check)
		}
		if err == nil {
			return s.spoolDir, nil
		}
		failed = err
	}
	for _, temp := range slices.Compact([]string{tempDir(), "/tmp"}) {
		dir, err := privateIn(temp, check)
		if err == nil {
			return dir, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", fmt.Errorf("find a directory for the spool (--spool names one): %w", failed)
}

// usable returns why a directory cannot hold runs, nil if it can.
func usable(dir string, check func(dir string) error) error {
	if err := check(dir); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("write in %s: %w", dir, err)
	}
	return nil
}

// tempDir is TMPDIR if it is absolute and, for root, other users can replace no file there.
func tempDir() string {
	dir := filepath.Clean(os.TempDir())
	if !filepath.IsAbs(dir) || isForeign(filepath.Join(dir, privateName())) {
		return "/tmp"
	}
	return dir
}

// privateName is the name of our directory in one that all users may write to.
func privateName() string { return "rt-" + strconv.Itoa(os.Getuid()) }

// privateIn creates our directory in one that all users may write to, and returns it.
func privateIn(temp string, check func(dir string) error) (string, error) {
	dir := filepath.Join(temp, privateName())
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if !streaming.IsPrivate(dir) {
		return "", fmt.Errorf("%s is not a directory that only this user can write to: see who created it", dir)
	}
	return dir, usable(dir, check)
}
