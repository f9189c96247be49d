package main

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
)

// noDefault matches the default that the library prints for every flag that is off.
var noDefault = regexp.MustCompile(` \(default: (false|0|0s)\)`)

// helpText matches a line of help up to its second column, which two spaces precede.
var helpText = regexp.MustCompile(`^( +\S.*?  +)\S`)

// printHelp prints the library's help in lines that fit a terminal. The library has no way
// to return an error of w.
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
