package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
)

// option is one flag. All take text, so that the message about a wrong value is ours.
type option struct {
	name, short string
	variable    string // of the environment; a flag wins over it
	other       string // name of the same variable in other trackers; variable has precedence
	takes       string // the name of its value in the help; empty for a switch
	fallback    string // the default
	usage       string
	repeats     bool // all values count, not the last alone
}

// commandLine is the values of flags and their variables. Package flag parses it: a library
// that prints its help by text/template adds 1.5 MiB of methods to the program.
type commandLine struct {
	values  map[string][]string // by the option's name; none for an option that is not set
	flagged map[string]bool     // set by a flag, not by its variable
	command []string
	err     error // the first value that cannot be used
}

func newCommandLine() *commandLine {
	return &commandLine{values: map[string][]string{}, flagged: map[string]bool{}}
}

// parseCommandLine parses args, without the program's name. It returns flag.ErrHelp for --help.
func parseCommandLine(args []string, options []option, lookup func(string) (string, bool)) (*commandLine, error) {
	c := newCommandLine()
	flags := c.flagSet(options)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, cli.Usage("%w; see resource-tracker --help", err)
	}
	c.command = flags.Args()
	if endsInDashes(args, options) {
		return nil, cli.Usage("-- without a command: leave it out to sample without one")
	}
	for _, o := range options {
		name := o.variable
		value, _ := lookup(name)
		if value == "" && o.other != "" {
			name = o.other
			value, _ = lookup(name)
		}
		switch {
		case c.flagged[o.name]:
		case value == "": // an empty variable counts as not set
			if o.fallback != "" {
				c.values[o.name] = []string{o.fallback}
			}
		default:
			if _, err := parseSwitch(value); err != nil && o.takes == "" {
				return nil, cli.Usage("%s %q: it is either true or false", name, value)
			}
			c.values[o.name] = []string{value}
		}
	}
	return c, nil
}

func (c *commandLine) flagSet(options []option) *flag.FlagSet {
	flags := flag.NewFlagSet("resource-tracker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, o := range options {
		define, set := flags.Func, func(text string) error { return c.set(o, text) }
		if o.takes == "" {
			define = flags.BoolFunc
		}
		define(o.name, o.usage, set)
		if o.short != "" {
			define(o.short, o.usage, set)
		}
	}
	return flags
}

// set adds the value of a flag.
func (c *commandLine) set(o option, text string) error {
	if _, err := parseSwitch(text); err != nil && o.takes == "" {
		return errors.New("it is either true or false")
	}
	c.flagged[o.name] = true
	if !o.repeats {
		c.values[o.name] = nil
	}
	c.values[o.name] = append(c.values[o.name], text)
	return nil
}

// endsInDashes reports whether the last word announces a command that does not follow.
func endsInDashes(args []string, options []option) bool {
	last := len(args) - 1
	if last < 0 || args[last] != "--" {
		return false
	}
	flags := newCommandLine().flagSet(options)
	return flags.Parse(args[:last]) == nil && flags.NArg() == 0 && !slices.Contains(args[:last], "--")
}

// fail keeps the first error.
func (c *commandLine) fail(format string, args ...any) {
	if c.err == nil {
		c.err = cli.Usage(format, args...)
	}
}

// text is an option's value, the last one of several.
func (c *commandLine) text(name string) string {
	if v := c.values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// on reports whether a switch is on.
func (c *commandLine) on(name string) bool {
	on, _ := parseSwitch(c.text(name)) // the parser has checked it
	return on
}

// parseSwitch parses the value of a switch, also in the words that other trackers accept.
func parseSwitch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "on":
		return true, nil
	case "n", "no", "off":
		return false, nil
	}
	return strconv.ParseBool(text)
}

const helpHead = `NAME:
   resource-tracker - sample the use of a machine, or of a command and the
   machine around it

USAGE:
   resource-tracker [flags]
   resource-tracker [flags] [--] command [args...]

DESCRIPTION:
   A flag overrides its environment variable, which overrides the configuration
   file, which overrides the default. Flags end at the first word that is not
   one: the rest is the command.
   Inside a Slurm job, around a command, samples go to a spool instead of
   standard output.

OPTIONS:
`

// app runs the command line.
func app(args []string, stdout io.Writer) error {
	line, err := parseCommandLine(args[min(1, len(args)):], options(), os.LookupEnv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return help(stdout)
	case err != nil:
		return err
	case line.on("version"):
		_, err := fmt.Fprintln(stdout, rt.VersionLine("resource-tracker"))
		return err
	}
	s, err := newSettings(line)
	switch {
	case err != nil:
		return err
	case len(s.command) > 0:
		return wrap(s)
	}
	return standalone(s)
}

// options are the flags of sections 3.2 and 9.3 of the specification, and the suite's own.
func options() []option {
	list := []option{
		{name: "pid", short: "p", variable: pidVariable, takes: "PID",
			usage: "the root PID of the process tree to track"},
		{name: "interval", short: "i", variable: "RESOURCE_TRACKER_INTERVAL", takes: "SECONDS",
			usage: "whole SECONDS between samples, at least 1 (default: 1)"},
		{name: "config", short: "c", variable: "RESOURCE_TRACKER_CONFIG", takes: "FILE", fallback: "resource-tracker.toml",
			usage: "TOML FILE with defaults; ignored if it is missing or invalid"},
		{name: "format", short: "f", variable: "RESOURCE_TRACKER_FORMAT", takes: "FORMAT", fallback: "json",
			usage: "FORMAT of the samples: json or csv"},
		{name: "dialect", variable: "TRACKER_DIALECT", takes: "spec|live",
			usage: "spec: samples on standard output, the CSV columns of the specification (default); live: those of the Rust tracker, on standard error"},
		{name: "output", short: "o", variable: "RESOURCE_TRACKER_OUTPUT", other: "TRACKER_OUTPUT", takes: "FILE",
			usage: "write the samples to FILE, not to standard output"},
		{name: "quiet", short: "q", variable: "RESOURCE_TRACKER_QUIET", other: "TRACKER_QUIET",
			usage: "write no samples to standard output or standard error"},
		{name: "spool", variable: "RESOURCE_TRACKER_SPOOL", takes: "DIR",
			usage: "write the readings to a database in DIR, for rt-spool, not to standard output"},
		{name: "scope", variable: "RESOURCE_TRACKER_SCOPE", takes: "job|node", fallback: string(rt.ScopeNode),
			usage: "show the figures of the surrounding Slurm job, or of the node"},
		{name: "listen", takes: "ADDRESS",
			usage: "broadcast GemPBA's telemetry at HOST:PORT or unix:PATH"},
		{name: "gpu", variable: "RESOURCE_TRACKER_GPU", takes: "auto|off", fallback: "auto",
			usage: "read GPUs"},
		{name: "path.procfs", takes: "DIR", fallback: "/proc", usage: "DIR where procfs is mounted"},
		{name: "path.sysfs", takes: "DIR", fallback: "/sys", usage: "DIR where sysfs is mounted"},
		{name: "path.cgroupfs", takes: "DIR", usage: "DIR where cgroups are mounted (default: see /proc/mounts)"},
		{name: "version", usage: "print the version and exit"},
	}
	for _, field := range rt.MetadataFields {
		upper := strings.ToUpper(field)
		o := option{name: flagName(field), variable: "TRACKER_" + upper, takes: upper, usage: "label the run: " + upper}
		if field == "job_name" {
			o.short = "n"
		}
		list = append(list, o)
	}
	return append(list, option{name: "tag", takes: "KEY=VALUE", repeats: true, usage: "label the run: KEY=VALUE; may be repeated"})
}

func flagName(field string) string { return strings.ReplaceAll(field, "_", "-") }

func help(to io.Writer) error {
	var text strings.Builder
	text.WriteString(helpHead)
	const column = 3 + formsWidth + 2
	for _, o := range append(options(), option{name: "help", short: "h", usage: "show help"}) {
		fmt.Fprintf(&text, "   %-*s  %s\n", formsWidth, o.forms(), cli.Fold(o.usage+o.origin(), column, column))
	}
	text.WriteString("\n" + exitHelp)
	_, err := io.WriteString(to, text.String())
	return err
}

// formsWidth is the width of the column of a flag's forms.
const formsWidth = 33

// forms are the ways to write an option.
func (o *option) forms() string {
	value := ""
	if o.takes != "" {
		value = " " + o.takes
	}
	if o.short == "" {
		return "--" + o.name + value
	}
	return "--" + o.name + value + ", -" + o.short + value
}

// origin describes where the value comes from when there is no flag.
func (o *option) origin() (text string) {
	if o.fallback != "" {
		text = " (default: " + o.fallback + ")"
	}
	if o.variable != "" {
		text += " [$" + o.variable + "]"
	}
	if o.other != "" {
		text += " [$" + o.other + "]"
	}
	return text
}
