package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"

	"github.com/resource-tracker/rt/internal/cli"
)

// option is one flag. All flags take text, so that the message about an invalid value is ours
// and says what is valid.
type option struct {
	name, short string
	variable    string // of the environment; a flag wins over it
	takes       string // the name of its value in the help; empty for a switch
	fallback    string // the default
	usage       string
	repeats     bool // all values count, not the last alone
}

// commandLine is the values of flags and their variables. The flag package of the standard
// library parses it: a library that prints its help by text/template makes the linker keep
// every method of every type, 1.5 MiB of them.
type commandLine struct {
	values  map[string][]string // by the option's name; none for an option that is not set
	flagged map[string]bool     // set by a flag, not by its variable
	command []string
	err     error // the first value that cannot be used
}

func newCommandLine() *commandLine {
	return &commandLine{values: map[string][]string{}, flagged: map[string]bool{}}
}

// parseCommandLine parses args, without the program's name, and the variables of lookup, which
// is os.LookupEnv. The error is flag.ErrHelp for --help.
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
		value, _ := lookup(o.variable)
		switch {
		case c.flagged[o.name]:
		case value == "": // an empty variable counts as not set
			if o.fallback != "" {
				c.values[o.name] = []string{o.fallback}
			}
		default:
			if _, err := strconv.ParseBool(value); err != nil && o.takes == "" {
				return nil, cli.Usage("%s %q: it is either true or false", o.variable, value)
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
	if _, err := strconv.ParseBool(text); err != nil && o.takes == "" {
		return errors.New("it is either true or false")
	}
	c.flagged[o.name] = true
	if !o.repeats {
		c.values[o.name] = nil
	}
	c.values[o.name] = append(c.values[o.name], text)
	return nil
}

// endsInDashes reports whether the last word announces a command that does not follow: it is
// not a flag's value, and the words before it have no command either.
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
	on, _ := strconv.ParseBool(c.text(name)) // the parser has checked it
	return on
}
