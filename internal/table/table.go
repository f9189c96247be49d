// Package table writes texts in columns that fit the width of a terminal.
package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/resource-tracker/rt/internal/printable"
)

// gap is how many blanks separate two columns.
const gap = 2

// longName is how long a name may be on a narrow terminal, in columns of the terminal.
const longName = 16

// Column is a column of a table with rows of type R. If the terminal is too narrow, names are shortened
// first; then the column with the highest Drop goes, and one with 0 never.
type Column[R any] struct {
	Head   string
	Drop   int
	IsName bool // users choose its texts, which may be of any length
	Cell   func(*R) string
	Paint  func(r *R, text string) string // adds a color to the text of the cell; nil: none
}

// Write prints as much of the table as fits into width columns of the terminal, all of it if width is 0.
// printable.Text cleans the cells. Write returns the heads of the columns that it left out.
func Write[R any](w io.Writer, columns []Column[R], list []R, width int) (dropped []string, err error) {
	rows := make([][]string, 1+len(list))
	for _, c := range columns {
		rows[0] = append(rows[0], c.Head)
		for i := range list {
			rows[1+i] = append(rows[1+i], printable.Text(c.Cell(&list[i])))
		}
	}
	shown, dropped := fit(columns, rows, width)
	var text bytes.Buffer
	for k, row := range rows {
		for i, c := range shown {
			cell := row[c]
			if paint := columns[c].Paint; paint != nil && k > 0 {
				cell = paint(&list[k-1], cell)
			}
			text.WriteString(cell)
			if i < len(shown)-1 {
				text.WriteString(strings.Repeat(" ", widest(rows, c)+gap-ansi.StringWidth(row[c])))
			}
		}
		text.WriteByte('\n')
	}
	_, err = w.Write(text.Bytes())
	return dropped, err
}

// WriteDropped prints the heads of columns that Write left out, and the flag that shows them.
func WriteDropped(w io.Writer, dropped []string) error {
	if len(dropped) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "(--wide for %s)\n", strings.Join(dropped, ", "))
	return err
}

// widest returns the width of column c. A wide character, such as a Chinese one, takes two columns of the
// terminal, a combining one none.
func widest(rows [][]string, c int) int {
	width := 0
	for _, row := range rows {
		width = max(width, ansi.StringWidth(row[c]))
	}
	return width
}

// fit returns the indices of the columns that stay and the heads of the others.
func fit[R any](columns []Column[R], rows [][]string, width int) (shown []int, dropped []string) {
	for i := range columns {
		shown = append(shown, i)
	}
	excess := func() int {
		n := -gap - width
		for _, c := range shown {
			n += widest(rows, c) + gap
		}
		return n
	}
	for width > 0 && excess() > 0 {
		if shortenNames(columns, rows, excess()) {
			continue
		}
		at := slices.MaxFunc(shown, func(a, b int) int { return cmp.Compare(columns[a].Drop, columns[b].Drop) })
		if columns[at].Drop == 0 {
			break
		}
		dropped = append(dropped, columns[at].Head)
		shown = slices.DeleteFunc(shown, func(c int) bool { return c == at })
	}
	return shown, dropped
}

// shortenNames cuts long names, and reports whether there was one.
func shortenNames[R any](columns []Column[R], rows [][]string, excess int) (cut bool) {
	for _, row := range rows {
		for i, c := range columns {
			n := ansi.StringWidth(row[i])
			if c.IsName && n > longName {
				row[i] = ansi.Truncate(row[i], max(longName, n-excess), "~")
				cut = true
			}
		}
	}
	return cut
}
