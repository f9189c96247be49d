package spool

import (
	"bufio"
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/rowcodec"
)

// ErrNotInMemory means that LoadInMemory does not read a record: it is large, has reports of other programs, or is
// damaged. Load reads it, or says what is wrong.
var ErrNotInMemory = errors.New("the record is not read in memory")

// maxInMemory is the largest record that LoadInMemory reads, in bytes without compression.
const maxInMemory = 16 << 20

// InMemory is a run that was read from a record without a spool file, which takes most of the time of Load and Open. It has
// what a Reader of that file has. It is for one goroutine at a time.
type InMemory struct {
	run    rt.Run
	tables map[string]*memoryTable
}

// memoryTable is a table of a record. Its blocks are decoded one by one.
type memoryTable struct {
	of     recordTable
	blocks []memoryBlock
	number int // of the block that is decoded, from 1
	rows   [][]driver.Value
}

// memoryBlock is a number of rows as bytes.
type memoryBlock struct {
	count   int
	content []byte
}

// LoadInMemory reads a record that Dump wrote. The record can be from any source: its memory is bounded. The error is
// ErrNotInMemory if the caller must use Load.
func LoadInMemory(r io.Reader) (*InMemory, error) {
	in := &recordReader{r: bufio.NewReaderSize(r, 64<<10)}
	run, _, err := in.begin()
	if err != nil {
		return nil, notInMemory(err)
	}
	m := &InMemory{run: run, tables: map[string]*memoryTable{}}
	for i := range in.tables {
		t := &in.tables[i]
		if m.tables[t.name] != nil {
			return nil, notInMemory(fmt.Errorf("table %s is there twice", t.name))
		}
		m.tables[t.name] = &memoryTable{of: *t}
	}
	left := maxInMemory
	for {
		content, err := in.frame()
		if err != nil {
			return nil, notInMemory(err)
		}
		if len(content) == 0 {
			if err := m.isComplete(in.r); err != nil {
				return nil, err
			}
			return m, nil
		}
		left -= len(content)
		if left < 0 {
			return nil, notInMemory(errors.New("it is large"))
		}
		if err := m.add(in, content); err != nil {
			return nil, notInMemory(err)
		}
	}
}

func notInMemory(err error) error { return fmt.Errorf("%w: %w", ErrNotInMemory, err) }

// isComplete returns an error if bytes follow the last frame, or if Load would refuse a table.
func (m *InMemory) isComplete(r *bufio.Reader) error {
	if _, err := r.ReadByte(); err != io.EOF {
		return notInMemory(errors.New("there are bytes after its end"))
	}
	known, err := knownTables()
	if err != nil {
		return notInMemory(err)
	}
	for _, t := range m.tables {
		if err := t.of.check(known); err != nil {
			return notInMemory(err)
		}
	}
	return nil
}

// add keeps the content of a frame.
func (m *InMemory) add(in *recordReader, content []byte) error {
	table, n := binary.Uvarint(content)
	count, k := binary.Uvarint(content[max(n, 0):])
	isHead := n > 0 && k > 0
	if !isHead || table >= uint64(len(in.tables)) || count > rowcodec.MaxValues {
		return fmt.Errorf("a frame has %d rows of table %d", count, table)
	}
	name := in.tables[table].name
	switch name {
	case "run", "host":
		return fmt.Errorf("it has another row of the table %s", name)
	case "record":
		return errors.New("it has reports of other programs")
	}
	t := m.tables[name]
	t.blocks = append(t.blocks, memoryBlock{int(count), bytes.Clone(content[n+k:])})
	return nil
}

// block decodes a block.
func (t *memoryTable) block(n int) ([][]driver.Value, error) {
	if t.number == n+1 {
		return t.rows, nil
	}
	rows, err := rowcodec.Decode(t.blocks[n].content, t.blocks[n].count, len(t.of.columns))
	if err != nil {
		return nil, err
	}
	if err := t.of.unpackCores(rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if err := checkRow(row); err != nil {
			return nil, err
		}
		for i, v := range row {
			if f, ok := v.(float64); ok && math.IsNaN(f) { // NULL in a spool file
				row[i] = nil
			}
		}
	}
	t.rows, t.number = rows, n+1
	return rows, nil
}

// Run returns the run.
func (m *InMemory) Run() rt.Run { return m.run }

// Events returns the quality ledger in the order it was written.
func (m *InMemory) Events() (list []rt.Event, err error) {
	columns := append([]string{"id"}, columnNamesOf(columnsOf(new(rt.Event)))...)
	err = m.each("event", columns, func(row []driver.Value) error {
		var e rt.Event
		err := scan(row[1:], columnsOf(&e))
		list = append(list, e)
		return err
	})
	return list, err
}

// each calls f with every row of a table, up to the limit of a Reader. The first column is the key of the table.
func (m *InMemory) each(table string, columns []string, f func(row []driver.Value) error) error {
	rows, kept := m.rows(table, columns), int64(0)
	rows.check = ascending(table, 1)
	row := make([]driver.Value, len(columns))
	for {
		err := rows.Next(row)
		if err == io.EOF {
			return nil
		}
		kept += weight(row)
		if err == nil && kept > maxKept {
			err = errors.New("a table takes too much memory")
		}
		if err == nil {
			err = f(row)
		}
		if err != nil {
			return notInMemory(err)
		}
	}
}

// Snapshots is Snapshots of a Reader, from the first to the last.
func (m *InMemory) Snapshots(ctx context.Context) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		it, err := m.start(ctx)
		if err != nil {
			yield(nil, notInMemory(err))
			return
		}
		defer it.close()
		for {
			err := it.next()
			if err == io.EOF {
				return
			}
			if err == nil && it.read%256 == 0 {
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, notInMemory(err))
				return
			}
			if !yield(&it.snapshot, nil) {
				return
			}
		}
	}
}

// start begins to read at the first snapshot.
func (m *InMemory) start(ctx context.Context) (*iterator, error) {
	it := &iterator{}
	return it, it.open(ctx, m, 1, math.MaxInt64, everything)
}

// identities implements rowSource.
func (m *InMemory) identities(table string, columns []string, f func(row []driver.Value) error) error {
	return m.each(table, columns, f)
}

// bySeq implements rowSource.
func (m *InMemory) bySeq(_ context.Context, table string, columns []string, _, _ int64) (driver.Rows, error) {
	key := 1
	if strings.HasSuffix(table, valueSuffix) {
		key = 2
	}
	rows := m.rows(table, columns)
	rows.check = ascending(table, key)
	return rows, nil
}

// ascending returns a check that the first columns of rows ascend, as a primary key in a spool file.
func ascending(table string, key int) func(row []driver.Value) error {
	last := [2]int64{math.MinInt64}
	return func(row []driver.Value) error {
		var now [2]int64
		for i := range key {
			n, ok := row[i].(int64)
			if !ok {
				return fmt.Errorf("table %s has a row without its key", table)
			}
			now[i] = n
		}
		if slices.Compare(now[:], last[:]) <= 0 {
			return fmt.Errorf("table %s is not in the order of its rows", table)
		}
		last = now
		return nil
	}
}

// rows returns the rows of a table with these columns. Those that the record lacks are NULL.
func (m *InMemory) rows(table string, columns []string) *memoryRows {
	r := &memoryRows{table: m.tables[table], columns: columns}
	if r.table == nil {
		r.table = &memoryTable{}
	}
	for _, c := range columns {
		r.places = append(r.places, slices.Index(r.table.of.columns, c))
	}
	return r
}

// memoryRows implements driver.Rows.
type memoryRows struct {
	table      *memoryTable
	columns    []string
	places     []int // in the table; below 0: the table lacks the column
	check      func(row []driver.Value) error
	block, row int
}

// Columns implements driver.Rows.
func (r *memoryRows) Columns() []string { return r.columns }

// Close implements driver.Rows.
func (r *memoryRows) Close() error { return nil }

// Next implements driver.Rows.
func (r *memoryRows) Next(to []driver.Value) error {
	for r.block < len(r.table.blocks) {
		rows, err := r.table.block(r.block)
		if err != nil {
			return err
		}
		if r.row == len(rows) {
			r.block, r.row = r.block+1, 0
			continue
		}
		for i, at := range r.places {
			to[i] = nil
			if at >= 0 {
				to[i] = rows[r.row][at]
			}
		}
		r.row++
		return r.check(to)
	}
	return io.EOF
}
