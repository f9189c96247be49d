package page

import (
	"cmp"
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// listing is a list of rows. Each column sorts it and can be chosen. A CSV has the columns that are shown. The first
// column always is.
type listing[R any] struct {
	page       string // its address
	usual      string // the key of the column by which it is sorted
	mostInFile int64  // rows
	columns    []column[R]
}

// column is a column of a list.
type column[R any] struct {
	key, head string
	file      string // head in a CSV
	isNumber  bool
	isText    bool                // sorted from A on; others from the highest on
	isExtra   bool                // hidden unless it is chosen
	isUseful  func(rows []R) bool // nil: always. If it is not, the column is hidden unless it is chosen
	field     string              // of the filter for which a cell has a link
	cell      func(p *Pages, r *R) cell
}

// cell is a field of a table.
type cell struct {
	Text, Link      string
	Note            string // after the text
	Class           string // of a badge
	IsBadge, IsName bool
	At              time.Time
	Share           *share
	Of              string // after the share
	Mark            report.Mark
	Problems        []site.Problem
	// Value is what the cell is sorted by, and what a CSV has; if it is absent, the text is.
	Value rt.Opt[float64]
}

// sortKey is the column by which a list is sorted, in its usual direction or in the other one.
type sortKey struct {
	key     string
	isOther bool
}

// order returns the order that a parameter names.
func (l *listing[R]) order(text string) (by sortKey, err error) {
	by.key, by.isOther = strings.CutPrefix(cmp.Or(text, l.usual), "-")
	if !slices.ContainsFunc(l.columns, func(c column[R]) bool { return c.key == by.key }) {
		return by, badRequest("The field sort has a value that is not possible.")
	}
	return by, nil
}

// parameter is the parameter of an order; empty for the usual one.
func (l *listing[R]) parameter(by sortKey) string {
	switch {
	case by.isOther:
		return "-" + by.key
	case by.key == l.usual:
		return ""
	}
	return by.key
}

func (l *listing[R]) column(key string) *column[R] {
	return &l.columns[slices.IndexFunc(l.columns, func(c column[R]) bool { return c.key == key })]
}

// sort sorts rows by a column: numbers from the highest, texts from A on. What is not known is last.
func (l *listing[R]) sort(p *Pages, rows []R, by sortKey) {
	type keyed struct {
		cell
		row R
	}
	c := l.column(by.key)
	all := make([]keyed, len(rows))
	for i := range rows {
		all[i] = keyed{c.cell(p, &rows[i]), rows[i]}
	}
	sign := 1
	if by.isOther {
		sign = -1
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		isTextA, isTextB := !a.Value.Valid(), !b.Value.Valid()
		switch {
		case isTextA && isTextB:
			return sign * strings.Compare(strings.ToLower(a.Text), strings.ToLower(b.Text))
		case isTextA:
			return 1
		case isTextB:
			return -1
		}
		return -sign * cmp.Compare(a.Value.Or(0), b.Value.Or(0))
	})
	for i := range all {
		rows[i] = all[i].row
	}
}

// shown are the columns that a parameter names, or else the usual ones.
func (l *listing[R]) shown(chosen string, rows []R) (list []column[R]) {
	keys := strings.Split(chosen, ",")
	for i, c := range l.columns {
		isUsual := !c.isExtra && (c.isUseful == nil || c.isUseful(rows))
		isShown := slices.Contains(keys, c.key)
		if chosen == "" {
			isShown = isUsual
		}
		if isShown || i == 0 {
			list = append(list, c)
		}
	}
	return list
}

// short returns the address of the list without empty parameters, with one parameter for the columns; empty if it has
// this form.
func (l *listing[R]) short(r request, values map[string]string) string {
	q := r.URL.Query()
	chosen, isChosen := q["col"]
	isLong := isChosen
	for _, v := range q {
		isLong = isLong || v[0] == ""
	}
	if !isLong {
		return ""
	}
	if isChosen {
		values["cols"] = strings.Join(chosen, ",")
		isUsual := true
		for _, c := range l.columns[1:] {
			isFree := c.isUseful != nil // it is there if it is useful
			isUsual = isUsual && (isFree || slices.Contains(chosen, c.key) != c.isExtra)
		}
		if isUsual {
			delete(values, "cols")
		}
	}
	return link(l.page, values)
}

// table is a table of a page.
type table struct {
	Label, By string // what it has; the id of its heading
	Head      []heading
	Rows      [][]cell
}

// heading is the head of a column.
type heading struct {
	Head, Key, Link string
	Sorted          string // "ascending" or "descending"; empty: not by this column
	IsNumber        bool
}

// table returns a table of rows. addLink changes the link of a cell; nil: they stay.
func (l *listing[R]) table(p *Pages, rows []R, shown []column[R], addLink func(l *cell, c *column[R], r *R)) (t table) {
	for _, c := range shown {
		t.Head = append(t.Head, heading{Head: c.head, Key: c.key, IsNumber: c.isNumber})
	}
	for i := range rows {
		row := make([]cell, len(shown))
		for k := range shown {
			row[k] = shown[k].cell(p, &rows[i])
			if addLink != nil {
				addLink(&row[k], &shown[k], &rows[i])
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// listView is what the page of a list has.
type listView struct {
	Table     table
	Columns   []choice // that can be chosen
	Sort      string   // parameter
	Self, CSV string   // links
}

// view adds to a table what sorts it and chooses its columns.
func (l *listing[R]) view(t table, by sortKey, values map[string]string) listView {
	v := listView{Table: t, Sort: values["sort"], Self: link(l.page, values), CSV: link(l.page+".csv", values)}
	for i := range t.Head {
		h := &v.Table.Head[i]
		next := sortKey{key: h.Key}
		if h.Key == by.key {
			next.isOther = !by.isOther
			h.Sorted = "descending"
			if l.column(h.Key).isText != by.isOther {
				h.Sorted = "ascending"
			}
		}
		h.Link = link(l.page, values, "sort", l.parameter(next))
	}
	for _, c := range l.columns[1:] {
		v.Columns = append(v.Columns, choice{Value: c.key, Text: c.head})
	}
	return v
}

// IsShown reports whether the table has a column.
func (t table) IsShown(key string) bool {
	return slices.ContainsFunc(t.Head, func(h heading) bool { return h.Key == key })
}

// writeCSV answers with rows as CSV, with the columns that are shown. A part of the
// rows is refused.
func (l *listing[R]) writeCSV(p *Pages, w http.ResponseWriter, rows []R, shown []column[R], isWhole bool) error {
	if !isWhole {
		return badRequest("A file has at most %s %s, and more match: narrow the filter, for example by dates.", grouped(l.mostInFile), l.page)
	}
	var head []string
	for _, c := range shown {
		head = append(head, c.file)
	}
	records := [][]string{head}
	for _, row := range l.table(p, rows, shown, nil).Rows {
		records = append(records, record(row, shown))
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+l.page+`.csv"`)
	_ = csv.NewWriter(w).WriteAll(records) // the client has closed the connection
	return nil
}

// record is a row of a CSV. A spreadsheet would compute a text that begins like a formula.
func record[R any](row []cell, shown []column[R]) (fields []string) {
	for i, c := range shown {
		l := &row[i]
		v, isKnown := l.Value.Get()
		isFigure := c.isNumber || l.Share != nil
		switch {
		case !l.At.IsZero():
			fields = append(fields, l.At.UTC().Format(time.RFC3339))
		case isFigure && isKnown:
			fields = append(fields, strconv.FormatFloat(v, 'f', -1, 64))
		case isFigure:
			fields = append(fields, "")
		default:
			fields = append(fields, printable.Cell(l.Text))
		}
	}
	return fields
}
