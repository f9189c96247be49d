package spool

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
)

// identities calls f with these columns of the rows of a table of identities.
func (c *conn) identities(table string, columns []string, f func(row []driver.Value) error) error {
	return c.eachUpTo(c.maxIdentities(), "SELECT "+sqlNames(columns)+" FROM "+table, nil, f)
}

// seqRange are the snapshots between two numbers. With a step above 1 it has the first two, the last one, and each step.
type seqRange struct{ from, to, step int64 }

// bySeq returns these columns of a table for a range of snapshots. The rows are in the order of seq, the first column.
func (c *conn) bySeq(ctx context.Context, table string, columns []string, of seqRange) (driver.Rows, error) {
	query := "SELECT " + sqlNames(columns) + " FROM " + table + " WHERE seq "
	if of.step <= 1 {
		return c.rows(ctx, query+"BETWEEN ? AND ? ORDER BY seq", of.from, of.to)
	}
	return c.rows(ctx, query+`IN (WITH RECURSIVE n(seq) AS (SELECT ?1 UNION ALL SELECT seq + ?3 FROM n WHERE seq + ?3 < ?2)
		SELECT seq FROM n UNION SELECT ?1 + 1 UNION SELECT ?2) ORDER BY seq`, of.from, of.to, of.step)
}

// seqRows are the rows of bySeq, with a look at the next one.
type seqRows struct {
	table string
	rows  driver.Rows
	row   []driver.Value
	seq   int64 // of row; 0 at the end
}

func openRows(ctx context.Context, c *conn, table string, columns []string, of seqRange) (*seqRows, error) {
	rows, err := c.bySeq(ctx, table, columns, of)
	if err != nil {
		return nil, err
	}
	r := &seqRows{table: table, rows: rows, row: make([]driver.Value, len(columns))}
	return r, r.next()
}

func (r *seqRows) close() { r.rows.Close() } // of a SELECT: nothing can be lost

func (r *seqRows) next() error {
	before := r.seq
	r.seq = 0
	more, err := nextRow(r.rows, r.row)
	if err != nil || !more {
		return err
	}
	seq, ok := r.row[0].(int64)
	if !ok || seq < max(before, 1) {
		return fmt.Errorf("table %s has the number %v, after %d", r.table, r.row[0], before)
	}
	r.seq = seq
	return nil
}

// isOf reports whether the next row belongs to snapshot seq, which follows the last one.
func (r *seqRows) isOf(seq int64) (bool, error) {
	if r.seq != 0 && r.seq < seq {
		return false, fmt.Errorf("table %s has a row %d without a snapshot", r.table, r.seq)
	}
	return r.seq == seq, nil
}

// elementReader restores one list of the snapshots, which are read in their order.
type elementReader[T any] struct {
	of     *listTable[T]
	bound  T // values point into it
	values []column
	rows   *seqRows // nil if the list is always empty
	known  map[int64]*knownIdentity[T]
	placed []place // of the elements of the snapshot
}

type knownIdentity[T any] struct {
	element T // without values
	slot    int64
}

// place is where an element stands in the list.
type place struct{ slot, id int64 }

func (a place) compare(b place) int {
	return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.id, b.id))
}

// listReader is an elementReader of any type.
type listReader interface {
	read(s *rt.Snapshot) error
	close()
}

// reader reads the identities and starts to read the values of a range of snapshots.
func (t *listTable[T]) reader(ctx context.Context, c *conn, of seqRange) (listReader, error) {
	r := &elementReader[T]{of: t, known: map[int64]*knownIdentity[T]{}}
	id, values := t.columns(&r.bound)
	r.values = values
	err := c.identities(t.table(), append([]string{"id", "slot"}, columnNamesOf(id)...), func(row []driver.Value) error {
		number, ok := row[0].(int64)
		slot, ok1 := row[1].(int64)
		if !ok || !ok1 {
			return fmt.Errorf("an element of table %s has no number", t.table())
		}
		k := &knownIdentity[T]{slot: slot}
		r.known[number] = k
		id, _ := t.columns(&k.element)
		return scan(row[2:], id)
	})
	if err != nil || len(r.known) == 0 {
		return r, err
	}
	r.rows, err = openRows(ctx, c, t.values(), append([]string{"seq", t.table()}, columnNamesOf(values)...), of)
	return r, err
}

func (r *elementReader[T]) close() {
	if r.rows != nil {
		r.rows.close()
	}
}

// read sets the list of snapshot s.
func (r *elementReader[T]) read(s *rt.Snapshot) error {
	list := r.of.list(s)
	*list, r.placed = (*list)[:0], r.placed[:0]
	if r.rows == nil {
		return nil
	}
	for {
		isOf, err := r.rows.isOf(s.Seq)
		if err != nil || !isOf {
			return err
		}
		if err := r.readElement(list); err != nil {
			return fmt.Errorf("table %s: %w", r.rows.table, err)
		}
		if err := r.rows.next(); err != nil {
			return err
		}
	}
}

// readElement adds the element of the next row to the list.
func (r *elementReader[T]) readElement(list *[]T) error {
	id, _ := r.rows.row[1].(int64)
	k := r.known[id]
	if k == nil {
		return fmt.Errorf("a reading of element %v, which is in no table", r.rows.row[1])
	}
	r.bound = k.element
	if err := scan(r.rows.row[2:], r.values); err != nil {
		return err
	}
	p := place{k.slot, id}
	at, _ := slices.BinarySearchFunc(r.placed, p, place.compare)
	r.placed = slices.Insert(r.placed, at, p)
	*list = slices.Insert(*list, at, r.bound)
	return nil
}
