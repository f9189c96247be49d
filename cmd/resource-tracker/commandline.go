package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"

	"github.com/resource-tracker/rt/internal/cli"
)

// option is one flag. Flags take text, so that a mistake in it is told in our
// words, with what would be right.
type option struct {
	name, short string
	variable    string // of the environment; a flag wins over it
	takes       string // what the help calls its value; empty for a switch
	fallback    string // the value where nobody gives one
	usage       string
	repeats     bool // each value counts, not the last alone
}

// commandLine is what flags and their variables say. The flag package of the
// standard library parses it: a library that prints its help by text/template
// makes the linker keep every method of every type, 1.5 MiB of them.
type commandLine struct {
	values  map[string][]string // by the option's name; none where nobody gave one
	flagged map[string]bool     // by a flag, not by its variable
	command []string
}

// parseCommandLine reads args, without the program's name, and the variables of
// lookup, which is os.LookupEnv. An error that is flag.ErrHelp asks for the help.
func parseCommandLine(args []string, options []option, lookup func(string) (string, bool)) (*commandLine, error) {
	c := &commandLine{values: map[string][]string{}, flagged: map[string]bool{}}
	flags := c.flagSet(options)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, cli.Usage("%w; see resource-tracker --help", err)
	}
	c.command = flags.Args()
	if endsInDashes(args, options) {
		return nil, cli.Usage("-- and no command after it: leave it out to sample without one")
	}
	for _, o := range options {
		value, set := lookup(o.variable)
		if !set || value == "" || c.flagged[o.name] { // an empty variable counts as not set
			continue
		}
		if o.takes == "" {
			if _, err := strconv.ParseBool(value); err != nil {
				return nil, cli.Usage("%s %q: it is either true or false", o.variable, value)
			}
		}
		c.values[o.name] = []string{value}
	}
	for _, o := range options {
		if c.values[o.name] == nil && o.fallback != "" {
			c.values[o.name] = []string{o.fallback}
		}
	}
	return c, nil
}

func (c *commandLine) flagSet(options []option) *flag.FlagSet {
	flags := flag.NewFlagSet("resource-tracker", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, o := range options {
		v := &flagValue{line: c, option: o}
		flags.Var(v, o.name, o.usage)
		if o.short != "" {
			flags.Var(v, o.short, o.usage)
		}
	}
	return flags
}

// endsInDashes: the last word says that a command follows, and it is no flag's
// value: the words before it are complete and have no command either.
func endsInDashes(args []string, options []option) bool {
	last := len(args) - 1
	if last < 0 || args[last] != "--" {
		return false
	}
	before := &commandLine{values: map[string][]string{}, flagged: map[string]bool{}}
	flags := before.flagSet(options)
	return flags.Parse(args[:last]) == nil && flags.NArg() == 0 && !slices.Contains(args[:last], "--")
}

// text is an option's value, the last one where it was given more than once.
func (c *commandLine) text(name string) string {
	if v := c.values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// on says whether a switch is.
func (c *commandLine) on(name string) bool {
	on, _ := strconv.ParseBool(c.text(name)) // what is wrong was found when it was parsed
	return on
}

// flagValue is an option as the flag package sets it.
type flagValue struct {
	line   *commandLine
	option option
}

// String implements flag.Value; nobody prints it.
func (*flagValue) String() string { return "" }

// Set implements flag.Value.
func (g *flagValue) Set(text string) error {
	name := g.option.name
	if g.option.takes == "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return errors.New("it is either true or false")
		}
	}
	g.line.flagged[name] = true
	if !g.option.repeats {
		g.line.values[name] = nil
	}
	g.line.values[name] = append(g.line.values[name], text)
	return nil
}

// IsBoolFlag says whether the flag stands alone.
func (g *flagValue) IsBoolFlag() bool { return g.option.takes == "" }
