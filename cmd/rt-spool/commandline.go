package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
)

// inOrder moves flags where the library expects them: flags of all verbs before the verb, the
// verb's own before its arguments. All words after -- are arguments.
func inOrder(app *cli.App, args []string) []string {
	verb, first, at := verbOf(app, args)
	switch {
	case verb == nil && app.ArgsUsage == "", verb != nil && verb.SkipFlagParsing:
		return args
	case verb == nil: // the program itself takes arguments
		verb, first, at = &cli.Command{Flags: app.Flags}, 1, 1
	}
	before, own, operands := slices.Clone(args[:first]), slices.Clone(args[first:at]), []string(nil)
	for at < len(args) {
		arg := args[at]
		if arg == "--" {
			operands = append([]string{arg}, append(operands, args[at+1:]...)...)
			break
		}
		if !isFlag(arg) {
			operands = append(operands, arg)
			at++
			continue
		}
		flags, to := verb.Flags, &own
		if named(verb.Flags, arg) == nil && named(app.Flags, arg) != nil {
			flags, to = app.Flags, &before
		}
		end := at + flagWords(flags, arg)
		if end > len(args) && to == &before { // no other word may become its value
			return append(before, arg)
		}
		if end > len(args) {
			return slices.Concat(before, append(own, arg))
		}
		*to = append(*to, args[at:end]...)
		at = end
	}
	return slices.Concat(before, own, operands)
}

// verbOf returns the verb, the index of its first word, and the index of the word after it.
func verbOf(app *cli.App, args []string) (verb *cli.Command, first, next int) {
	for first = 1; first < len(args) && isFlag(args[first]); {
		first += flagWords(app.Flags, args[first])
	}
	commands := app.Commands
	for next = first; next < len(args); next++ {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[next]) })
		if i < 0 {
			break
		}
		verb, commands = commands[i], commands[i].Subcommands
	}
	return verb, first, next
}

// isFlag reports whether a word is a flag; - alone is standard input.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg != "--" }

// named returns the flag of arg, such as --node, -node or --node=n1; nil if it is none.
func named(flags []cli.Flag, arg string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// flagWords returns how many words a flag has with its value.
func flagWords(flags []cli.Flag, arg string) int {
	f, ok := named(flags, arg).(cli.DocGenerationFlag)
	if ok && f.TakesValue() && !strings.Contains(arg, "=") {
		return 2
	}
	return 1
}

// The messages of the flag package.
var (
	badValue  = regexp.MustCompile(`(?s)^invalid (?:boolean )?value "(.*)" for (?:flag )?-([A-Za-z-]+): `)
	noValue   = regexp.MustCompile(`^flag needs an argument: -+([A-Za-z-]+)$`)
	noSuch    = regexp.MustCompile(`(?s)^flag provided but not defined: -+(.+)$`)
	quotedArg = regexp.MustCompile("`([^`]+)`")
)

// onUsageError explains an error in a flag; the library would print a page of help.
func onUsageError(c *cli.Context, err error, _ bool) error {
	verb, text := c.Command.HelpName, err.Error()
	if m := badValue.FindStringSubmatch(text); m != nil {
		return rtcli.Usage("%s %q: %s; see %s --help", asTyped(m[2]), m[1], wanted(named(c.Command.Flags, m[2])), verb)
	}
	if m := noValue.FindStringSubmatch(text); m != nil {
		return rtcli.Usage("%s needs a value: %[1]s %s; see %s --help", asTyped(m[1]), placeholder(named(c.Command.Flags, m[1])), verb)
	}
	if m := noSuch.FindStringSubmatch(text); m != nil {
		return rtcli.Usage("there is no flag %s; see %s --help", asTyped(m[1]), verb)
	}
	return rtcli.Usage("%w; see %s --help", err, verb)
}

// asTyped is a flag with its dashes, which the messages of the flag package lack.
func asTyped(name string) string {
	if short, _, _ := strings.Cut(name, "="); len(short) == 1 {
		return "-" + name
	}
	return "--" + name
}

// wanted describes the value of a flag.
func wanted(f cli.Flag) string {
	switch f.(type) {
	case *cli.DurationFlag:
		return "give a duration with its unit, such as 30s, 5m or 1h30m"
	case *cli.IntFlag:
		return "give a whole number, such as 4"
	case *cli.Float64Flag:
		return "give a number, such as 2 or 0.5"
	case *cli.BoolFlag:
		return "it takes no value"
	}
	return "it cannot be this"
}

// placeholder returns the name of a flag's value in its help.
func placeholder(f cli.Flag) string {
	if f, ok := f.(cli.DocGenerationFlag); ok {
		if m := quotedArg.FindStringSubmatch(f.GetUsage()); m != nil {
			return m[1]
		}
	}
	return "VALUE"
}

// noDefault matches the default that the library prints for every flag that is off.
var noDefault = regexp.MustCompile(` \(default: (false|0|0s)\)`)

// helpText matches a line of help up to its second column, which two spaces precede.
var helpText = regexp.MustCompile(`^( +\S.*?  +)\S`)

// printHelp prints the library's help in lines that fit a terminal.
func printHelp(w io.Writer, template string, data any) {
	var page strings.Builder
	cli.HelpPrinterCustom(&page, template, data, nil)
	for line := range strings.Lines(noDefault.ReplaceAllString(page.String(), "")) {
		_, _ = io.WriteString(w, folded(line))
	}
}

// folded breaks a line that is too wide, and aligns the continuation with its text.
func folded(line string) string {
	line = strings.TrimRight(line, " \n")
	if utf8.RuneCountInString(line) <= rtcli.Width {
		return line + "\n"
	}
	at := len(line) - len(strings.TrimLeft(line, " "))
	column := at + 3
	if m := helpText.FindStringSubmatch(line); m != nil && len(m[1]) < rtcli.Width/2 {
		at, column = len(m[1]), len(m[1])
	}
	return line[:at] + rtcli.Fold(line[at:], at, column) + "\n"
}
