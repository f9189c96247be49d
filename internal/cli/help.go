// Package cli is what the command lines of the programs share: the layout of the help,
// errors with their exit statuses, JSON output and the check for a terminal.
package cli

import (
	"strings"
	"unicode/utf8"
)

// Width is how wide a line of help is at most, in characters.
const Width = 80

// Fold breaks text between its words into lines of at most Width characters, where no
// word is longer. The first begins in the column first, the others in the column next.
func Fold(text string, first, next int) string {
	var out strings.Builder
	at := first
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case at+1+width > Width:
			out.WriteString("\n" + strings.Repeat(" ", next))
			at = next
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += width
	}
	return out.String()
}
