// Package table writes texts in columns that fit the width of a terminal.
package table

import (
	"bytes"
	"cmp"
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

// Column is a column of a Table. If the terminal is too narrow, names are shortened
// first; then the column with the highest Drop goes, and one with 0 never.
type Column struct {
	Head   string
	Drop   int
	IsName bool // users choose its texts, which may be of any length
}

// Table has a cell for each of its columns in each row.
type Table struct {
	Columns []Column
	Rows    [][]string
}

// Write prints as much of the table as fits into width columns of the terminal, all of it if width is 0.
// printable.Text cleans the cells. Write returns the heads of the columns that it left out.
func (t *Table) Write(w io.Writer, width int) (dropped []string, err error) {
	rows := [][]string{make([]string, len(t.Columns))}
	for i, c := range t.Columns {
		rows[0][i] = c.Head
	}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = printable.Text(cell)
		}
		rows = append(rows, cells)
	}
	shown, dropped := t.fit(rows, width)
	var text bytes.Buffer
	for _, row := range rows {
		for i, c := range shown {
			text.WriteString(row[c])
			if i < len(shown)-1 {
				text.WriteString(strings.Repeat(" ", widest(rows, c)+gap-ansi.StringWidth(row[c])))
			}
		}
		text.WriteByte('\n')
	}
	_, err = w.Write(text.Bytes())
	return dropped, err
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
func (t *Table) fit(rows [][]string, width int) (shown []int, dropped []string) {
	for i := range t.Columns {
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
		if t.shortenNames(rows, excess()) {
			continue
		}
		at := slices.MaxFunc(shown, func(a, b int) int { return cmp.Compare(t.Columns[a].Drop, t.Columns[b].Drop) })
		if t.Columns[at].Drop == 0 {
			break
		}
		dropped = append(dropped, t.Columns[at].Head)
		shown = slices.DeleteFunc(shown, func(c int) bool { return c == at })
	}
	return shown, dropped
}

// shortenNames cuts long names, and reports whether there was one.
func (t *Table) shortenNames(rows [][]string, excess int) (cut bool) {
	for _, row := range rows {
		for i, c := range t.Columns {
			n := ansi.StringWidth(row[i])
			if c.IsName && n > longName {
				row[i] = ansi.Truncate(row[i], max(longName, n-excess), "~")
				cut = true
			}
		}
	}
	return cut
}
