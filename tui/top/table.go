package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/tui"
)

// page is the content of one view: some lines, and a table below them.
type page struct {
	name    string // in --json
	head    []string
	columns []column
	rows    []row
	empty   string // text instead of an empty table
}

// column of a table. If not all fit, those with the highest rank are left out first. The
// one without a width fills the rest.
type column struct {
	title string
	key   string // in --json
	width int    // at least; 0 for the rest
	rank  int    // 0 is always shown
	text  bool   // aligned left, and sorted in ascending order first
}

type row struct {
	id    string // identifies the row, so that the cursor stays with it
	cells []cell
	alarm bool // close to a limit
}

// cell has a text, and the value for sorting and JSON: a float64, a string, or nil if
// nothing was read.
type cell struct {
	text  string
	value any
	draw  func(width int) string // instead of text, for a cell that fills its column
}

func word(s string) cell { return cell{text: dash(s), value: s} }

func number(v rt.Opt[float64], format func(float64) string) cell {
	if x, ok := v.Get(); ok && x == x {
		return cell{text: format(x), value: x}
	}
	return cell{text: notRead}
}

func count(v rt.Opt[uint64]) cell { return number(rt.Scaled(v, 1), bigNumber) }

func bytesOf(v rt.Opt[uint64]) cell { return number(rt.Scaled(v, 1), size) }

// name is a number that identifies something; all digits are shown.
func name(v rt.Opt[uint64]) cell {
	c := number(rt.Scaled(v, 1), decimal)
	if !v.Valid() {
		c.text = "-"
	}
	return c
}

// order is how a table is sorted; column -1 is the original order.
type order struct {
	column  int
	reverse bool
}

// sorted returns the rows that contain the filter's text, in order.
func (p *page) sorted(filter string, o order) []row {
	filter = strings.ToLower(filter)
	rows := slices.DeleteFunc(slices.Clone(p.rows), func(r row) bool { return filter != "" && !r.holds(filter) })
	if o.column < 0 || o.column >= len(p.columns) {
		if o.reverse {
			slices.Reverse(rows)
		}
		return rows
	}
	down := !p.columns[o.column].text != o.reverse
	slices.SortStableFunc(rows, func(a, b row) int {
		x, y := a.cells[o.column].value, b.cells[o.column].value
		if x == nil || y == nil { // values that were not read are last in both orders
			return cmp.Compare(b2i(x == nil), b2i(y == nil))
		}
		d := compare(x, y)
		if down {
			return -d
		}
		return d
	})
	return rows
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compare(x, y any) int {
	switch x := x.(type) {
	case float64:
		if y, ok := y.(float64); ok {
			return cmp.Compare(x, y)
		}
	case string:
		if y, ok := y.(string); ok {
			return natural(strings.ToLower(x), strings.ToLower(y))
		}
	}
	return 0
}

// natural compares texts with the numbers in them as numbers: 9, 10, 12_3, n2, n10.
func natural(x, y string) int {
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n == 0 || m == 0 {
			if x[0] != y[0] {
				return cmp.Compare(x[0], y[0])
			}
			x, y = x[1:], y[1:]
			continue
		}
		a, b := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
		if d := cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)); d != 0 {
			return d
		}
		x, y = x[n:], y[m:]
	}
	return cmp.Compare(len(x), len(y))
}

// digits returns how many digits a text begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

func (r *row) holds(lower string) bool {
	return slices.ContainsFunc(r.cells, func(c cell) bool { return strings.Contains(strings.ToLower(c.text), lower) })
}

// layout returns the widths of the columns; 0 is a column that does not fit. The title of
// the sorted column has a mark.
func (p *page) layout(rows []row, total int, o order) []int {
	widths := make([]int, len(p.columns))
	for i, c := range p.columns {
		widths[i] = max(c.width, tui.Width(p.title(i, o)))
		if c.width == 0 {
			widths[i] = leastSpark
			continue
		}
		for _, r := range rows {
			widths[i] = max(widths[i], tui.Width(r.cells[i].text))
		}
		if c.text {
			widths[i] = min(widths[i], 2*c.width+4) // names may be of any length
		}
	}
	used := func() (n int) {
		for _, w := range widths {
			if w > 0 {
				n += w + 1
			}
		}
		return n - 1
	}
	for used() > total {
		worst := -1
		for i, c := range p.columns {
			isWorse := worst < 0 || c.rank >= p.columns[worst].rank
			if widths[i] > 0 && c.rank > 0 && isWorse {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		widths[worst] = 0
	}
	for i, c := range p.columns {
		if c.width == 0 && widths[i] > 0 {
			widths[i] += max(total-used(), 0)
		}
	}
	return widths
}

// leastSpark is the least width of the column that fills the rest.
const leastSpark = 8

// titles returns the line above the rows, with a mark at the sorted column.
func (p *page) titles(widths []int, o order) string {
	return p.joined(widths, func(i int) string { return p.title(i, o) })
}

func (p *page) title(i int, o order) string {
	if i == o.column {
		return "*" + p.columns[i].title
	}
	return p.columns[i].title
}

func (p *page) line(r *row, widths []int) string {
	return p.joined(widths, func(i int) string {
		if draw := r.cells[i].draw; draw != nil {
			return draw(widths[i])
		}
		return r.cells[i].text
	})
}

// joined returns a line of the table with a text for each column that is shown.
func (p *page) joined(widths []int, text func(i int) string) string {
	var out []string
	for i, c := range p.columns {
		if widths[i] > 0 {
			out = append(out, pad(text(i), widths[i], !c.text))
		}
	}
	return strings.TrimRight(strings.Join(out, " "), " ")
}
