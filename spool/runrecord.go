package spool

import (
	"bufio"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/rowcodec"
)

// The record of a run is its spool file without the state of its delivery, for another machine:
// recordMagic, then frames. A frame is the length of its content (uvarint), the content and the
// CRC-32C of the content (4 bytes, big-endian). The first frame lists the tables and columns. Each
// other frame is a number of a table and a number of rows (uvarints), and a block of package
// rowcodec. The run comes first, then the host. The frame of the length 0 is the last one. Package
// runrecord compresses all of it.
//
// The number in recordMagic changes with the tables of the spool file; 1 was before the first release, 0.2.0.
const recordMagic = "rt record 2\n"

const oldMagic = "rt record 1\n"

// Limits of the content of a frame, in bytes: of the list of tables, of the run or the host, and of
// others. A row is at most maxValue, twice.
const (
	maxSchema = 64 << 10
	maxRun    = 1 << 20
	maxFrame  = 16 << 20
)

// frameLimit returns the limit of a frame by its number, from 0.
func frameLimit(number int) int {
	return [...]int{maxSchema, maxRun, maxRun, maxFrame}[min(number, 3)]
}

// frameText is the number of bytes of texts after which a frame ends.
const frameText = 256 << 10

// castagnoli returns the table of CRC-32C. Its first call takes 0.2 ms, which the start of a tracker does
// not need.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// delivery lists the tables that a record leaves out: they describe what one receiver has of the
// run. The record also leaves out run.delivered_us and the events of the kind rt.EventDelivery, and has
// the state ended for delivered. So a delivery does not change the record of a run that has ended.
var delivery = []string{"registration", "batch"}

// recordTable is a table in a record.
type recordTable struct {
	name    string
	columns []string
}

// element returns the column with the element of a row of values, or "".
func (t *recordTable) element() string {
	name, isValues := strings.CutSuffix(t.name, valueSuffix)
	if !isValues {
		return ""
	}
	return name
}

// key returns the number of the column with the series of a row, or rowcodec.None.
func (t *recordTable) key() int { return slices.Index(t.columns, t.element()) }

// order is the primary key as SQL.
func (t *recordTable) order() string {
	if t.name == "run" || t.name == "host" {
		return "id"
	}
	if t.element() != "" {
		return "seq, " + t.element()
	}
	return t.columns[0]
}

// rows are the table as SQL, without the rows that a record leaves out.
func (t *recordTable) rows() string {
	if t.name == "event" {
		return "event WHERE kind IS NOT '" + rt.EventDelivery + "'"
	}
	return t.name
}

// quoted lists the columns as SQL.
func (t *recordTable) quoted() string { return `"` + strings.Join(t.columns, `", "`) + `"` }

// recordTables returns the tables of a database in the order of a record: run and host come first.
func (c *conn) recordTables() ([]recordTable, error) {
	var run rt.Run
	var host rt.Host
	list := []recordTable{{"run", columnNamesOf(columnsOf(&run))}, {"host", columnNamesOf(columnsOf(&host))}}
	var names []string
	err := c.each("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('run', 'host') ORDER BY rowid", nil, func(row []driver.Value) error {
		names = append(names, fmt.Sprint(row[0]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if slices.Contains(delivery, name) {
			continue
		}
		t := recordTable{name: name}
		err := c.each("PRAGMA table_info("+name+")", nil, func(row []driver.Value) error {
			t.columns = append(t.columns, fmt.Sprint(row[1]))
			return nil
		})
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

func columnNamesOf(columns []column) (list []string) {
	for _, c := range columns {
		list = append(list, c.name)
	}
	return list
}

// DumpOptions alters what a record says, for a receiver that is not to know all of it. A nil function
// changes nothing. The functions do not change the run that is read.
//
// Run and Host get copies of the run and the host. Most names of a record are there: user and group
// with their numbers, account, job, project, node, nodes, and the host's name and address. So are
// the command with its arguments, directory, comment, tags, and the cgroup's path, which has the
// numbers of user and job. The new file is named by the job, the node and the start of the run that
// Run leaves. A text that Run or Host sets to "" is not in the record.
//
// Event gets each event of the ledger. Its name and detail can have programs,
// paths, nodes, numbers of jobs, and messages of errors. Record gets each report of another
// program, usually a JSON document, and returns whether it is in the record.
//
// Text gets each text in the other tables, with the names of its table and column, and returns the
// text for the record. These columns can name a person, a job, a directory or a machine:
//
//   - process.comm: the program of a process, which it can set itself
//   - mount.mount_point, remote_fs.mount_point and remote_fs.source: directories and servers
//   - step.step: the number of a step, or its name
//   - net.name, net.mac, disk.name, disk.serial, mount.disk, fabric.device, gpu.uuid, gpu.host, gpu.detail, gpu_process.uuid: devices of the node
//
// The other texts are kinds, states and models. Process ids and times are numbers, which stay.
type DumpOptions struct {
	Run    func(*rt.Run)
	Host   func(*rt.Host)
	Event  func(*rt.Event)
	Record func(*rt.ForeignReport) bool
	Text   func(table, column, text string) string
}

// Dump writes the complete record of a run, from which Load makes a spool file with the same rows. It
// has everything but the state of the delivery. The run's tracker may be alive: the record is of one
// moment. It is not compressed: Write of package archive does that. A nil pointer means no option.
func Dump(ctx context.Context, w io.Writer, r *Reader, opts *DumpOptions) error {
	held, err := r.db.hold()
	if err != nil {
		return describe(r.path, err)
	}
	if opts == nil {
		opts = &DumpOptions{}
	}
	d := dump{Reader: r, opts: opts, out: newRecordWriter(w)}
	return errors.Join(d.write(ctx), held.Close())
}

// dump is a record that is being written.
type dump struct {
	*Reader
	opts *DumpOptions
	out  *recordWriter
}

func (r *dump) write(ctx context.Context) error {
	all, err := r.db.recordTables()
	if err != nil {
		return refused(r.path, err)
	}
	var tables []recordTable
	for _, t := range all {
		row, err := r.db.query("SELECT 1 FROM " + t.rows() + " LIMIT 1")
		if err != nil {
			return refused(r.path, err)
		}
		if row != nil {
			tables = append(tables, t)
		}
	}
	err = r.out.frame(packTables(tables))
	for i := range tables {
		if err == nil {
			err = r.writeTable(ctx, i, &tables[i])
		}
	}
	if err == nil {
		err = r.out.end()
	}
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.path, err)
	}
	return nil
}

// writeTable writes the rows of a table in frames of a bounded size.
func (r *dump) writeTable(ctx context.Context, number int, t *recordTable) error {
	most := rowcodec.MaxValues / len(t.columns)
	var rows [][]driver.Value
	text := 0
	var cores coreBlobs
	var failed error // of alter or out
	err := r.db.stream(ctx, "SELECT "+t.quoted()+" FROM "+t.rows()+" ORDER BY "+t.order(), nil, func(row []driver.Value) error {
		row = slices.Clone(row)
		var isKept bool
		isKept, failed = r.alter(t, row)
		if t.name == coreTable {
			var err error
			row[1], err = cores.pack(row[1])
			if err != nil {
				return err
			}
		}
		if isKept {
			rows = append(rows, row)
			text += textOf(row)
		}
		isFull := len(rows) >= most || text >= frameText
		if failed == nil && isFull {
			failed = r.out.rows(number, t, rows)
			rows, text, cores = rows[:0], 0, coreBlobs{}
		}
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return refused(r.path, err)
	case len(rows) > 0:
		return r.out.rows(number, t, rows)
	}
	return nil
}

// alter applies the options to a row, and reports whether the record has it.
func (r *dump) alter(t *recordTable, row []driver.Value) (isKept bool, err error) {
	switch t.name {
	case "run":
		if at := slices.Index(t.columns, "state"); row[at] == string(rt.StateDelivered) {
			row[at] = string(rt.StateEnded)
		}
		return true, alterStruct(row, r.opts.Run)
	case "host":
		return true, alterStruct(row, r.opts.Host)
	case "event":
		return true, alterStruct(row[1:], r.opts.Event) // after the id
	case "record":
		return r.alterRecord(t, row), nil
	}
	for i, v := range row {
		if text, ok := v.(string); ok && r.opts.Text != nil {
			row[i] = r.opts.Text(t.name, t.columns[i], text)
		}
	}
	return true, nil
}

func (r *dump) alterRecord(t *recordTable, row []driver.Value) (isKept bool) {
	if r.opts.Record == nil {
		return true
	}
	source, body := slices.Index(t.columns, "source"), slices.Index(t.columns, "body")
	var rec rt.ForeignReport
	rec.Source, _ = row[source].(string)
	text, _ := row[body].(string)
	rec.Body = []byte(text)
	if !r.opts.Record(&rec) {
		return false
	}
	row[source], row[body] = textValue(rec.Source), string(rec.Body)
	return true
}

// alterStruct applies a function to the struct in a row, which begins with its columns.
func alterStruct[T any](row []driver.Value, f func(*T)) error {
	if f == nil {
		return nil
	}
	var of T
	columns := columnsOf(&of)
	if err := scan(row, columns); err != nil {
		return err
	}
	f(&of)
	for i, c := range columns {
		row[i] = encode(c.field)
	}
	return nil
}

// textOf returns the bytes of the texts and blobs of a row.
func textOf(row []driver.Value) (n int) {
	for _, v := range row {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// recordWriter writes the frames of a record.
type recordWriter struct {
	w      *bufio.Writer
	frames int
}

func newRecordWriter(w io.Writer) *recordWriter {
	out := &recordWriter{w: bufio.NewWriterSize(w, 64<<10)}
	out.w.WriteString(recordMagic) // end returns the error
	return out
}

// errFrame means that a part of a run does not fit into a record.
var errFrame = errors.New("it is too large for a record; the spool file has all of it")

// frame writes a frame that a reader accepts, or returns an error.
func (o *recordWriter) frame(content []byte) error {
	if limit := frameLimit(o.frames); len(content) > limit {
		return fmt.Errorf("part %d has %d bytes, the limit is %d: %w", o.frames, len(content), limit, errFrame)
	}
	o.frames++
	frame := append(binary.AppendUvarint(nil, uint64(len(content))), content...)
	_, err := o.w.Write(binary.BigEndian.AppendUint32(frame, crc32.Checksum(content, castagnoli())))
	return err
}

// rows writes a frame with rows of a table.
func (o *recordWriter) rows(number int, t *recordTable, rows [][]driver.Value) error {
	head := binary.AppendUvarint(nil, uint64(number))
	head = binary.AppendUvarint(head, uint64(len(rows)))
	err := o.frame(rowcodec.Append(head, t.key(), rows))
	if err != nil {
		return fmt.Errorf("table %s: %w", t.name, err)
	}
	return nil
}

func (o *recordWriter) end() error {
	return errors.Join(o.w.WriteByte(0), o.w.Flush())
}

// packTables encodes the list of tables: a line each with its name and columns.
func packTables(tables []recordTable) (out []byte) {
	for _, t := range tables {
		out = fmt.Appendln(out, t.name, strings.Join(t.columns, " "))
	}
	return out
}
