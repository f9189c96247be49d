package spool

import (
	"bufio"
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/rowcodec"
)

// ErrRecord means that a record of a run is damaged, or not one.
var ErrRecord = errors.New("damaged record of a run")

// Load makes the spool file of a run in dir from a record that Dump wrote, and returns its path.
// The record can be from any source. Nothing of it is opened as a database or run as SQL. Its
// memory is bounded, and limits bounds the file. As with any spool file, a Reader checks the
// values. If the run is in dir already, the error is ErrExists. After an error there is no file.
// Read of package archive takes a compressed record.
func Load(dir string, limits *ImportLimits, r io.Reader) (path string, err error) {
	in := &recordReader{r: bufio.NewReaderSize(r, 64<<10)}
	run, host, err := in.begin()
	if err != nil {
		return "", err
	}
	w, err := limits.Create(dir, run, host, Options{})
	if err != nil {
		return "", err
	}
	err = in.fill(w)
	if err == nil {
		err = in.finish(w)
	}
	if err != nil {
		return "", errors.Join(err, w.Discard())
	}
	return w.path, nil
}

// CheckRecord reads a record to its end, and returns its run and host. It checks that this version knows the tables
// and columns, and that the rows can be decoded, not their values. Its memory is bounded.
func CheckRecord(r io.Reader) (rt.Run, rt.Host, error) {
	in := &recordReader{r: bufio.NewReaderSize(r, 64<<10)}
	run, host, err := in.begin()
	if err != nil {
		return run, host, err
	}
	known, err := knownTables()
	if err == nil {
		err = in.eachFrame(known, func(*recordTable) error {
			for _, row := range in.rows {
				if err := checkRow(row); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return run, host, err
}

// knownTables returns the tables of a record that this version writes.
var knownTables = sync.OnceValues(func() (list []recordTable, err error) {
	err = withEmptyDB(strings.Join(migrations, "\n"), func(c *conn) error {
		list, err = c.recordTables()
		return err
	})
	return list, err
})

// eachFrame calls f with the table of each further frame, while the rows of the frame are in in.
func (in *recordReader) eachFrame(known []recordTable, f func(*recordTable) error) error {
	for i := range in.tables {
		if err := in.tables[i].check(known); err != nil {
			return in.broken(err)
		}
	}
	for {
		err := in.next()
		if err == errRecordEnd {
			return nil
		}
		if err != nil {
			return in.broken(err)
		}
		t := &in.tables[in.table]
		if t.name == "run" || t.name == "host" {
			return in.broken(fmt.Errorf("it has another row of the table %s", t.name))
		}
		if err := f(t); err != nil {
			return err
		}
	}
}

// checkRow returns an error if a row is larger than a spool file may have.
func checkRow(row []driver.Value) error {
	if n := textOf(row); n > maxValue {
		return fmt.Errorf("%w: a row has %d bytes of texts", ErrRecord, n)
	}
	return nil
}

// recordReader reads the frames of a record.
type recordReader struct {
	r      *bufio.Reader
	tables []recordTable
	buf    bytes.Buffer
	frames int

	table int // of the newest frame
	rows  [][]driver.Value
}

// begin reads the run and the host.
func (in *recordReader) begin() (run rt.Run, host rt.Host, err error) {
	magic := make([]byte, len(recordMagic))
	_, err = io.ReadFull(in.r, magic)
	switch {
	case err == io.ErrUnexpectedEOF:
		return run, host, in.broken(err)
	case err != nil && err != io.EOF:
		return run, host, err
	case string(magic) == oldMagic:
		return run, host, fmt.Errorf("%w: a version of rt before the first release, 0.2.0, wrote this record; rt-spool import of that version reads it", ErrOld)
	case string(magic) != recordMagic:
		return run, host, fmt.Errorf("%w: it does not begin with %q", ErrRecord, recordMagic)
	}
	content, err := in.frame()
	if err == nil {
		in.tables, err = unpackTables(content)
	}
	if err != nil {
		return run, host, in.broken(err)
	}
	err = in.one("run", columnsOf(&run))
	if err == nil {
		err = in.one("host", columnsOf(&host))
	}
	isState := run.State == rt.StateRunning || run.State == rt.StateEnded
	if err == nil && !isState {
		err = fmt.Errorf("the run has the state %q", run.State)
	}
	if err != nil {
		return run, host, in.broken(err)
	}
	return run, host, nil
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// broken describes an error that the content caused. Others are of the reader.
func (in *recordReader) broken(err error) error {
	if isEnd(err) {
		return fmt.Errorf("%w: it is cut in frame %d: %w", ErrRecord, in.frames, io.ErrUnexpectedEOF)
	}
	var failed readError
	if errors.As(err, &failed) {
		return failed.error
	}
	return fmt.Errorf("%w: frame %d: %w", ErrRecord, in.frames, err)
}

// readError is an error of the reader.
type readError struct{ error }

// frame reads the content of the next frame, which is valid until the one after it. It is empty
// at the end of the record.
func (in *recordReader) frame() ([]byte, error) {
	limit := frameLimit(in.frames)
	in.frames++
	size, err := binary.ReadUvarint(in.r)
	if err != nil {
		return nil, readErrorOf(err)
	}
	if size > uint64(limit) {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", size, limit)
	}
	if size == 0 {
		return nil, nil
	}
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, int64(size)+4); err != nil { // it grows with what is there
		return nil, readErrorOf(err)
	}
	content := in.buf.Bytes()[:size]
	if crc32.Checksum(content, castagnoli()) != binary.BigEndian.Uint32(in.buf.Bytes()[size:]) {
		return nil, errors.New("its checksum is wrong")
	}
	return content, nil
}

func readErrorOf(err error) error {
	if isEnd(err) {
		return err
	}
	return readError{err}
}

// next reads the rows of the next frame, io.EOF after the last one.
func (in *recordReader) next() error {
	content, err := in.frame()
	if err != nil {
		return err
	}
	if len(content) == 0 {
		if _, err := in.r.ReadByte(); err != io.EOF {
			return errors.New("there are bytes after the end of the record")
		}
		return errRecordEnd
	}
	table, n := binary.Uvarint(content)
	count, m := binary.Uvarint(content[max(n, 0):])
	isHead := n > 0 && m > 0
	if !isHead || table >= uint64(len(in.tables)) || count > rowcodec.MaxValues {
		return fmt.Errorf("it has %d rows of table %d", count, table)
	}
	in.table = int(table)
	t := &in.tables[table]
	in.rows, err = rowcodec.Decode(content[n+m:], int(count), len(t.columns))
	if err != nil {
		return err
	}
	return t.unpackCores(in.rows)
}

// errRecordEnd is the end of a complete record.
var errRecordEnd = errors.New("end of the record")

// one reads the only row of a table into the fields.
func (in *recordReader) one(table string, columns []column) error {
	err := in.next()
	if err != nil {
		return err
	}
	t := &in.tables[in.table]
	if t.name != table || len(in.rows) != 1 {
		return fmt.Errorf("it has %d rows of the table %s, not one of %s", len(in.rows), t.name, table)
	}
	for i, name := range t.columns {
		at := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		if at < 0 {
			return errUnknown(table, name)
		}
		if err := scan(in.rows[0][i:i+1], columns[at:at+1]); err != nil {
			return err
		}
	}
	return nil
}

func errUnknown(table, column string) error {
	return fmt.Errorf("%w: this version of rt does not know the column %.64q of the table %.64q: install the version that wrote the record", ErrNewer, column, table)
}

// unpackTables is the reverse of packTables.
func unpackTables(content []byte) ([]recordTable, error) {
	var tables []recordTable
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			return nil, errors.New("a table has no columns")
		}
		tables = append(tables, recordTable{words[0], words[1:]})
	}
	return tables, nil
}

// fill writes the rows of the other tables.
func (in *recordReader) fill(w *Writer) error {
	known, err := knownTables()
	if err != nil {
		return err
	}
	inserts := make([]*stmt, len(in.tables))
	return in.eachFrame(known, func(t *recordTable) error {
		if inserts[in.table] == nil {
			inserts[in.table], err = w.db.prepare("INSERT INTO " + t.name + " (" + t.quoted() + ") VALUES (" + placeholders(len(t.columns)) + ")")
			if err != nil {
				return err
			}
		}
		err = in.insertRows(w, inserts[in.table])
		if isContent(err) {
			return in.broken(err)
		}
		return err
	})
}

// isContent reports whether SQLite refused a row for its content, such as a number that is there twice.
func isContent(err error) bool {
	var e sqlite3.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == sqlite3.ErrConstraint || e.Code == sqlite3.ErrMismatch || e.Code == sqlite3.ErrTooBig
}

// check returns an error unless the table and its columns are known.
func (t *recordTable) check(known []recordTable) error {
	at := slices.IndexFunc(known, func(k recordTable) bool { return k.name == t.name })
	if at < 0 {
		return errUnknown(t.name, t.columns[0])
	}
	for i, name := range t.columns {
		if !slices.Contains(known[at].columns, name) {
			return errUnknown(t.name, name)
		}
		if slices.Contains(t.columns[:i], name) {
			return fmt.Errorf("the table %s has the column %s twice", t.name, name)
		}
	}
	return nil
}

// insertRows writes the rows of the newest frame in one transaction.
func (in *recordReader) insertRows(w *Writer, insert *stmt) error {
	err := w.db.inTx(func() error {
		for _, row := range in.rows {
			if err := checkRow(row); err != nil {
				return err
			}
			insert.bindFrom(0, row...)
			if err := insert.run(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	return w.tooLarge()
}

// finish closes the file. The file of a run that has not ended is left as by a tracker that died.
func (in *recordReader) finish(w *Writer) error {
	if w.run.State == rt.StateRunning {
		return w.Close()
	}
	err := w.db.exec("PRAGMA synchronous = NORMAL")
	if err == nil {
		err = w.closeEnded()
	}
	return err
}
