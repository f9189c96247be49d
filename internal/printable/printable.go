// Package printable makes text of users safe to print on terminals, in logs and in spreadsheets.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text puts "?" for each character that a terminal or a log may interpret: control characters, line ends, invisible
// characters with direction or no width. Users choose the names of jobs, processes and files. Programs print no text
// for people without Text.
func Text(text string) string {
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, text)
}

// Lines is Text for a text of several lines, such as joined errors. The second and
// further lines are indented: none of them looks like a message of its own.
func Lines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Text(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n  ")
}

// Cell is Text for a cell of CSV. It puts an apostrophe before a text that begins like a formula, because a spreadsheet
// would execute it. Some spreadsheets begin a new cell after a semicolon.
func Cell(text string) string {
	cells := strings.Split(text, ";")
	for i, cell := range cells {
		begin := strings.TrimLeft(cell, ` "`)
		if begin != "" && strings.Contains("=+-@\t\r", begin[:1]) {
			cells[i] = "'" + cell
		}
	}
	return Text(strings.Join(cells, ";"))
}

// Is reports whether a text is UTF-8 in which Text replaces nothing.
func Is(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}
