package spool

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// optFields lists the figures of s that are integers in the order of the columns.
func optFields(s *rt.Snapshot) (fields []*rt.Opt[uint64]) {
	for _, c := range figureColumns(s) {
		switch p := c.field.(type) {
		case *rt.Opt[uint64]:
			fields = append(fields, p)
		case inKiB:
			fields = append(fields, p.Opt)
		}
	}
	return fields
}

// optColumns lists their columns.
var optColumns = slices.DeleteFunc(figureColumns(new(rt.Snapshot)), func(c figureColumn) bool {
	switch c.field.(type) {
	case *rt.Opt[uint64], inKiB:
		return false
	}
	return true
})

// realFields lists the figures of s that are fractions.
func realFields(s *rt.Snapshot) (fields []*rt.Opt[float64]) {
	for _, c := range figureColumns(s) {
		if p, ok := c.field.(*rt.Opt[float64]); ok {
			fields = append(fields, p)
		}
	}
	return fields
}

// tickFields lists the counters of a CPU.
func tickFields(t *rt.CPUTimes) (fields []*uint64) {
	for _, c := range tickColumns {
		fields = append(fields, c.at(t))
	}
	return fields
}

// The columns of the schema are those that the code writes, in its order.
func TestSchemaHasTheColumnsOfTheCode(t *testing.T) {
	r := stored(t, Options{}, []*rt.Snapshot{{}})
	want := map[string][]string{"snapshot": columnNamesOf(snapshotColumns(new(rt.Snapshot), everyFigure)), coreTable: {"seq", "cores"}}
	for _, l := range storedLists {
		want[l.values()] = append([]string{"seq", l.table()}, l.valueColumns()...)
	}
	for table, want := range want {
		rows, err := r.db.rows(background, "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, rows.Columns()); diff != "" {
			t.Errorf("schema/spool.sql: the table %s has other columns than the tables of figures: -want +got\n%s", table, diff)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
