// Package table writes texts in columns that fit the width of a terminal.
package table

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
)

// gap is how many blanks separate two columns.
const gap = 2

// longName is how long a name may be on a narrow terminal, in characters.
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

// Write prints, with rt.Printable, as much of the table as fits into width characters, all of it if width
// is 0, and returns the heads of the columns that it left out.
func (t *Table) Write(w io.Writer, width int) (dropped []string, err error) {
	rows := [][]string{make([]string, len(t.Columns))}
	for i, c := range t.Columns {
		rows[0][i] = c.Head
	}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = rt.Printable(cell)
		}
		rows = append(rows, cells)
	}
	shown, dropped := t.fit(rows, width)
	var text bytes.Buffer // tabwriter writes each cell by itself
	tw := tabwriter.NewWriter(&text, 0, 8, gap, ' ', 0)
	for _, row := range rows {
		var cells []string
		for _, c := range shown {
			cells = append(cells, row[c])
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return dropped, err
	}
	_, err = w.Write(text.Bytes())
	return dropped, err
}

// fit returns the indices of the columns that stay and the heads of the others.
func (t *Table) fit(rows [][]string, width int) (shown []int, dropped []string) {
	for i := range t.Columns {
		shown = append(shown, i)
	}
	excess := func() int {
		n := -gap - width
		for _, c := range shown {
			widest := 0
			for _, row := range rows {
				widest = max(widest, utf8.RuneCountInString(row[c]))
			}
			n += widest + gap
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
			n := utf8.RuneCountInString(row[i])
			if c.IsName && n > longName {
				row[i] = string([]rune(row[i])[:max(longName, n-excess)-1]) + "~"
				cut = true
			}
		}
	}
	return cut
}
