package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// lsColumn is a column of ls. Where the terminal is too narrow the one with the highest
// drop goes first, and one with 0 never.
type lsColumn struct {
	head string
	drop int
	cell func(*listed) string // of a run that can be read
}

var lsColumns = []lsColumn{
	{"JOB", 0, handle},
	{"NODE", 4, func(l *listed) string { return dash(l.Node) }},
	{"USER", 1, func(l *listed) string { return dash(l.User) }},
	{"NAME", 2, func(l *listed) string { return dash(l.Meta.JobName) }},
	{"STATE", 0, stateOf},
	{"OUTCOME", 0, func(l *listed) string { return dash(string(l.Outcome)) }},
	{"EXIT", 5, func(l *listed) string { return exitOf(l.Run) }},
	{"STARTED", 7, func(l *listed) string { return l.Start.Local().Format("01-02 15:04:05") }},
	{"ELAPSED", 3, elapsedOf},
	{"READINGS", 6, func(l *listed) string { return strconv.FormatInt(l.Snapshots, 10) }},
	{"UNSENT", 0, func(l *listed) string { return strconv.FormatInt(l.Unsent, 10) }},
	{"KIB", 0, kib},
	{"AGE", 0, ageOf},
}

func kib(l *listed) string { return strconv.FormatInt((l.SizeBytes+1023)/1024, 10) }

// lsGap stands between two columns.
const lsGap = 2

// widthOf is how many characters fit into a line of w, 0: any number.
func widthOf(w io.Writer) int {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _ := terminalSize(w)
	return width
}

// printRuns prints the table, as much of it as fits into width, and what is wrong with
// the files that cannot be read.
func printRuns(w io.Writer, runs []listed, width int) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	shown, dropped := fit(lsTable(runs), width)
	tw := tabwriter.NewWriter(w, 0, 8, lsGap, ' ', 0)
	for _, row := range shown {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range runs {
		if err := printUnreadable(w, &runs[i]); err != nil {
			return err
		}
	}
	if len(dropped) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "(--wide for %s)\n", strings.Join(dropped, ", "))
	return err
}

// printUnreadable says what is wrong with a file that cannot be read.
func printUnreadable(w io.Writer, l *listed) error {
	if l.Error == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, "unreadable:", l.Error)
	return err
}

// of is the cell of a run, also of one that cannot be read.
func (c *lsColumn) of(l *listed) string {
	switch {
	case l.Run != nil:
		return c.cell(l)
	case c.head == "NAME":
		return filepath.Base(l.Path)
	case c.head == "STATE":
		return "unreadable"
	case c.head == "KIB":
		return kib(l)
	}
	return "-"
}

// lsTable is the whole table, its heads first.
func lsTable(runs []listed) [][]string {
	rows := make([][]string, 1, len(runs)+1)
	for _, c := range lsColumns {
		rows[0] = append(rows[0], c.head)
	}
	for i := range runs {
		l := &runs[i]
		row := make([]string, len(lsColumns))
		for i, c := range lsColumns {
			row[i] = c.of(l)
		}
		rows = append(rows, row)
	}
	return rows
}

// fit shortens the names that people give and leaves columns out, until the rest fits
// into width, and says which it left out.
func fit(rows [][]string, width int) (shown [][]string, dropped []string) {
	columns := make([]int, len(lsColumns)) // indices of those that are shown
	for i := range columns {
		columns[i] = i
	}
	widest := func(column int) (n int) {
		for _, row := range rows {
			n = max(n, utf8.RuneCountInString(row[column]))
		}
		return n
	}
	excess := func() int {
		n := -lsGap - width
		for _, c := range columns {
			n += widest(c) + lsGap
		}
		return n
	}
	for width > 0 && excess() > 0 {
		if shortenNames(rows, excess()) {
			continue
		}
		at := slices.MaxFunc(columns, func(a, b int) int { return cmp.Compare(lsColumns[a].drop, lsColumns[b].drop) })
		if lsColumns[at].drop == 0 {
			break
		}
		dropped = append(dropped, lsColumns[at].head)
		columns = slices.DeleteFunc(columns, func(c int) bool { return c == at })
	}
	for _, row := range rows {
		var cells []string
		for _, c := range columns {
			cells = append(cells, row[c])
		}
		shown = append(shown, cells)
	}
	return shown, dropped
}

// longName is how long a name may be on a narrow terminal.
const longName = 16

// shortenNames cuts names of users and jobs that are very long; false where none is.
func shortenNames(rows [][]string, excess int) (cut bool) {
	for _, row := range rows {
		for i, c := range lsColumns {
			if n := utf8.RuneCountInString(row[i]); (c.head == "NAME" || c.head == "USER") && n > longName {
				row[i] = string([]rune(row[i])[:max(longName, n-excess)-1]) + "~"
				cut = true
			}
		}
	}
	return cut
}
