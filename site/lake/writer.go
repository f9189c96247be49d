package lake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/resource-tracker/rt"
)

// groupRows is the number of rows after which a row group of samples ends, and groupRuns the number
// for runs. Engines read row groups in parallel, and skip those that a query does not need.
const (
	groupRows = 128 << 10
	groupRuns = 16 << 10
)

// magic is at both ends of a Parquet file.
const magic = "PAR1"

// tableWriter writes a file.
type tableWriter struct {
	file    *os.File
	bytes   *counter
	about   *format.FileMetaData // of the file
	columns []*chunk
	indexes [][]format.ColumnIndex // of the columns of each row group
	places  [][]format.OffsetIndex
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
	t, err := newTable(f, schema, about, group)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	t.file = f
	return t, nil
}

// newTable begins a file.
func newTable(to io.Writer, schema *parquet.Schema, about map[string]Description, group int) (*tableWriter, error) {
	t := &tableWriter{bytes: &counter{Writer: to}, group: group}
	for _, path := range schema.Columns() {
		t.columns = append(t.columns, newChunk(schema, path))
	}
	var err error
	t.about, err = metadata(schema, about)
	if err == nil {
		_, err = io.WriteString(t.bytes, magic)
	}
	return t, err
}

// metadata returns the metadata that parquet-go gives a file without rows.
func metadata(schema *parquet.Schema, about map[string]Description) (*format.FileMetaData, error) {
	var empty bytes.Buffer
	w := parquet.NewGenericWriter[any](&empty, schema, parquet.CreatedBy("rt", rt.Version, ""), parquet.KeyValueMetadata(DescriptionKey, encodeDescriptions(about)))
	if err := w.Close(); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(bytes.NewReader(empty.Bytes()), int64(empty.Len()))
	if err != nil {
		return nil, err
	}
	return f.Metadata(), nil
}

// write writes rows, given as the values of each column.
func (t *tableWriter) write(columns [][]parquet.Value, rows int) error {
	for i, values := range columns {
		if err := t.columns[i].put(values); err != nil {
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
	return t.endGroup()
}

// size is the size of what has been encoded, in bytes: without the last page of each column.
func (t *tableWriter) size() int64 {
	n := t.bytes.n
	for _, c := range t.columns {
		n += int64(len(c.encoded.body))
	}
	return n
}

// endGroup writes the row group.
func (t *tableWriter) endGroup() error {
	if t.open == 0 {
		return nil
	}
	g := format.RowGroup{NumRows: int64(t.open), FileOffset: t.bytes.n, Ordinal: int16(len(t.about.RowGroups))}
	var indexes []format.ColumnIndex
	var places []format.OffsetIndex
	for _, c := range t.columns {
		meta, at, err := t.writeChunk(c)
		if err != nil {
			return err
		}
		g.Columns = append(g.Columns, format.ColumnChunk{MetaData: meta})
		g.TotalByteSize += meta.TotalUncompressedSize
		g.TotalCompressedSize += meta.TotalCompressedSize
		indexes, places = append(indexes, cloneIndex(c.encoded.index.ColumnIndex())), append(places, format.OffsetIndex{PageLocations: at})
		c.reset()
	}
	t.about.RowGroups = append(t.about.RowGroups, g)
	t.indexes, t.places = append(t.indexes, indexes), append(t.places, places)
	t.about.NumRows += int64(t.open)
	t.open = 0
	return nil
}

// cloneIndex copies an index, which is valid until the next page.
func cloneIndex(i format.ColumnIndex) format.ColumnIndex {
	i.NullPages, i.NullCounts = slices.Clone(i.NullPages), slices.Clone(i.NullCounts)
	i.MinValues, i.MaxValues = slices.Clone(i.MinValues), slices.Clone(i.MaxValues)
	for _, list := range [][][]byte{i.MinValues, i.MaxValues} {
		for n := range list {
			list[n] = bytes.Clone(list[n])
		}
	}
	return i
}

// writeChunk writes a column of the row group. It returns the places of the pages.
func (t *tableWriter) writeChunk(c *chunk) (m format.ColumnMetaData, places []format.PageLocation, err error) {
	if err := c.endPage(); err != nil {
		return m, nil, err
	}
	e := &c.encoded
	m = format.ColumnMetaData{
		Type: format.Type(c.kind), Encoding: []format.Encoding{format.RLE, c.encoding()}, PathInSchema: c.path, Codec: format.Zstd,
		NumValues: e.values, TotalUncompressedSize: e.plainSize, TotalCompressedSize: int64(len(e.body)), Statistics: c.statistics(),
		EncodingStats: []format.PageEncodingStats{{PageType: format.DataPageV2, Encoding: c.encoding(), Count: int32(len(e.places))}},
	}
	if c.kind == parquet.ByteArray {
		words, plain, err := c.encodeDictionary()
		if err != nil {
			return m, nil, err
		}
		m.DictionaryPageOffset = t.bytes.n
		m.Encoding = append(m.Encoding, format.Plain)
		m.EncodingStats = append(m.EncodingStats, format.PageEncodingStats{PageType: format.DictionaryPage, Encoding: format.Plain, Count: 1})
		m.TotalUncompressedSize += int64(plain)
		m.TotalCompressedSize += int64(len(words))
		if _, err := t.bytes.Write(words); err != nil {
			return m, nil, err
		}
	}
	m.DataPageOffset = t.bytes.n
	places = slices.Clone(e.places)
	for i := range places {
		places[i].Offset += m.DataPageOffset
	}
	_, err = t.bytes.Write(e.body)
	return m, places, err
}

// finish writes the rest of the file, and sets it to its beginning. It returns its size in bytes.
func (t *tableWriter) finish() (int64, error) {
	err := t.end()
	if err == nil {
		_, err = t.file.Seek(0, io.SeekStart)
	}
	return t.bytes.n, err
}

// end writes the rest of the file: the indexes of the pages, and the metadata.
func (t *tableWriter) end() error {
	if err := t.endGroup(); err != nil {
		return err
	}
	for g := range t.about.RowGroups {
		for i := range t.about.RowGroups[g].Columns {
			c := &t.about.RowGroups[g].Columns[i]
			var err error
			c.ColumnIndexOffset, c.ColumnIndexLength, err = t.writeStruct(&t.indexes[g][i])
			if err != nil {
				return err
			}
		}
	}
	for g := range t.about.RowGroups {
		for i := range t.about.RowGroups[g].Columns {
			c := &t.about.RowGroups[g].Columns[i]
			var err error
			c.OffsetIndexOffset, c.OffsetIndexLength, err = t.writeStruct(&t.places[g][i])
			if err != nil {
				return err
			}
		}
	}
	_, length, err := t.writeStruct(t.about)
	if err != nil {
		return err
	}
	_, err = t.bytes.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(length)), magic...))
	return err
}

// writeStruct writes a struct of the format, and returns where it is.
func (t *tableWriter) writeStruct(v any) (offset int64, length int32, err error) {
	content, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		return 0, 0, fmt.Errorf("encode the metadata: %w", err)
	}
	offset = t.bytes.n
	_, err = t.bytes.Write(content)
	return offset, int32(len(content)), err
}

// discard removes the file.
func (t *tableWriter) discard() error {
	return errors.Join(t.file.Close(), os.Remove(t.file.Name()))
}
