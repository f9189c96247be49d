package lake

import (
	"errors"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// groupRows is the number of rows after which a row group of samples ends, and groupRuns that of runs. Engines read
// row groups in parallel, and skip those that a query does not need.
const (
	groupRows = 128 << 10
	groupRuns = 16 << 10
)

// tableWriter writes a file.
type tableWriter struct {
	file    *os.File
	bytes   *counter
	writer  *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	group   int // rows of a row group
	open    int // rows of the row group that is being written
	rows    int64
}

// counter counts the bytes that are written.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

// createTable makes a file for rows of a schema in a directory.
func createTable(dir string, schema *parquet.Schema, about map[string]Description, group int) (*tableWriter, error) {
	f, err := os.CreateTemp(dir, "table-*")
	if err != nil {
		return nil, err
	}
	out := &counter{Writer: f}
	w := parquet.NewGenericWriter[any](out, schema, parquet.Compression(&parquet.Zstd),
		parquet.CreatedBy("rt", rt.Version, ""), parquet.KeyValueMetadata(DescriptionKey, encodeDescriptions(about)))
	return &tableWriter{file: f, bytes: out, writer: w, columns: w.ColumnWriters(), group: group}, nil
}

// write writes rows, given as the values of each column.
func (t *tableWriter) write(columns [][]parquet.Value, rows int) error {
	for i, values := range columns {
		if _, err := t.columns[i].WriteRowValues(values); err != nil {
			return err
		}
	}
	return t.added(rows)
}

// added counts rows that are in all columns.
func (t *tableWriter) added(rows int) error {
	t.rows += int64(rows)
	t.open += rows
	if t.open < t.group {
		return nil
	}
	t.open = 0
	return t.writer.Flush()
}

// finish writes the rest of the file, and sets it to its beginning. It returns its size in bytes.
func (t *tableWriter) finish() (int64, error) {
	err := t.writer.Close()
	if err == nil {
		_, err = t.file.Seek(0, io.SeekStart)
	}
	return t.bytes.n, err
}

// discard removes the file.
func (t *tableWriter) discard() error {
	return errors.Join(t.file.Close(), os.Remove(t.file.Name()))
}
