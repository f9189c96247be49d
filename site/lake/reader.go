package lake

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// errNewer means that a newer version of rt wrote a file.
var errNewer = errors.New("the file has columns that this version of rt does not know")

// errFile means that a file of the lake is damaged.
var errFile = errors.New("the file is damaged, or no Parquet")

// tableReader reads the rows of a file in their order, with the columns of a schema. A column that the file lacks is
// null.
type tableReader struct {
	cursors []*cursor // by the number of the column in the schema
	rows    int
}

// openTable opens a file with the columns of a schema.
func openTable(path string, f *os.File, schema *parquet.Schema) (*tableReader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(64<<10))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, errFile, err)
	}
	for _, column := range file.Schema().Columns() {
		if _, ok := schema.Lookup(column...); !ok {
			return nil, fmt.Errorf("%s: %w: %s", path, errNewer, strings.Join(column, "."))
		}
	}
	t := &tableReader{rows: int(file.NumRows())}
	for n, column := range schema.Columns() {
		want, _ := schema.Lookup(column...)
		c := &cursor{column: n, isRepeated: want.MaxRepetitionLevel > 0, absent: parquet.NullValue().Level(0, 0, n)}
		if leaf, ok := file.Schema().Lookup(column...); ok {
			for _, g := range file.RowGroups() {
				c.chunks = append(c.chunks, g.ColumnChunks()[leaf.ColumnIndex])
			}
			c.isThere = true
		}
		t.cursors = append(t.cursors, c)
	}
	return t, nil
}

func (t *tableReader) close() error {
	var failed []error
	for _, c := range t.cursors {
		failed = append(failed, c.close())
	}
	return errors.Join(failed...)
}

// readValues is how many values are read at once.
const readValues = 1024

// cursor reads the values of a column.
type cursor struct {
	column     int
	isThere    bool
	isRepeated bool
	absent     parquet.Value
	chunks     []parquet.ColumnChunk
	pages      parquet.Pages
	page       parquet.Page
	values     parquet.ValueReader
	buf        []parquet.Value // read and not used
	space      [readValues]parquet.Value
}

// next passes the values of the next rows to use, in several calls. A nil use skips the rows. The values are valid
// during the call.
func (c *cursor) next(rows int, use func([]parquet.Value) error) error {
	if !c.isThere {
		if use == nil {
			return nil
		}
		return use(slices.Repeat([]parquet.Value{c.absent}, rows))
	}
	begun := 0 // rows
	for {
		if len(c.buf) == 0 {
			err := c.fill()
			if err == io.EOF && begun == rows {
				return nil
			}
			if err == io.EOF {
				err = fmt.Errorf("column %d ends too early: %w", c.column, io.ErrUnexpectedEOF)
			}
			if err != nil {
				return fmt.Errorf("%w: %w", errFile, err)
			}
		}
		n := 0
		for ; n < len(c.buf); n++ {
			if c.buf[n].RepetitionLevel() != 0 {
				continue
			}
			if begun == rows {
				break
			}
			begun++
		}
		if use != nil && n > 0 {
			if err := use(c.buf[:n]); err != nil {
				return err
			}
		}
		c.buf = c.buf[n:]
		isDone := len(c.buf) > 0 || (begun == rows && !c.isRepeated)
		if isDone {
			return nil
		}
	}
}

// fill reads values. They refer to the page, which is released before the next one.
func (c *cursor) fill() error {
	for {
		if c.values != nil {
			n, err := c.values.ReadValues(c.space[:])
			if err != nil && err != io.EOF {
				return err
			}
			if n > 0 {
				c.buf = c.space[:n]
				return nil
			}
			parquet.Release(c.page)
			c.values, c.page = nil, nil
		}
		if c.pages == nil {
			if len(c.chunks) == 0 {
				return io.EOF
			}
			c.pages, c.chunks = c.chunks[0].Pages(), c.chunks[1:]
		}
		page, err := c.pages.ReadPage()
		if err == io.EOF {
			err = c.pages.Close()
			c.pages = nil
			if err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		c.page, c.values = page, page.Values()
	}
}

func (c *cursor) close() error {
	if c.page != nil {
		parquet.Release(c.page)
		c.page, c.values = nil, nil
	}
	if c.pages == nil {
		return nil
	}
	pages := c.pages
	c.pages = nil
	return pages.Close()
}

// copyRows is how many rows are copied at once.
const copyRows = 4096

// copyTo copies the next rows to a file.
func (t *tableReader) copyTo(w *tableWriter, rows int) error {
	for rows > 0 {
		n := min(rows, copyRows)
		for i, c := range t.cursors {
			err := c.next(n, w.columns[i].put)
			if err != nil {
				return err
			}
		}
		rows -= n
		if err := w.added(n); err != nil {
			return err
		}
	}
	return nil
}

// skip skips the next rows.
func (t *tableReader) skip(rows int) error {
	for _, c := range t.cursors {
		if err := c.next(rows, nil); err != nil {
			return err
		}
	}
	return nil
}

// each passes the values of a column outside lists.
func (t *tableReader) each(schema *parquet.Schema, name string, use func(parquet.Value)) error {
	return t.cursors[indexOf(schema, name)].next(t.rows, func(values []parquet.Value) error {
		for _, v := range values {
			use(v)
		}
		return nil
	})
}
