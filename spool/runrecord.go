package spool

import (
	"bufio"
	"bytes"
	"compress/flate"
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
// rowcodec. The frame of the length 0 is the last one.
const recordMagic = "rt record 1\n"

// maxFrame bounds the content of a frame in bytes. A row is at most maxValue, twice.
const maxFrame = 16 << 20

// frameText is the number of bytes of texts after which a frame ends.
const frameText = 256 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// delivery lists the tables that a record leaves out: they describe what one receiver has of the
// run. The record also leaves out run.delivered_us and the events of the kind rt.EventDelivery, and has
// the state ended for delivered. So a delivery does not change the record of a run that has ended.
var delivery = []string{"registration", "batch"}

// recordTable is a table in a record.
type recordTable struct {
	name    string
	columns []string
}

// recordPlans has the names of the columns that predict others, by table.
var recordPlans = map[string]struct {
	key   string
	hints map[string][2]string // Like and Less
}{
	"device_reading": {key: "device"},
	"gpu_reading":    {key: "gpu"},
	"counter_value":  {key: "device"},
	"process_value":  {key: "process"},
	"step_value": {key: "step", hints: map[string][2]string{
		"cpu_user_us": {"cpu_usage_us"}, "cpu_system_us": {"cpu_usage_us", "cpu_user_us"},
	}},
	"snapshot_delta": {hints: map[string][2]string{
		"job_cpu_user_us": {"job_cpu_usage_us"}, "job_cpu_system_us": {"job_cpu_usage_us", "job_cpu_user_us"},
		"job_inactive_kib": {"job_anon_kib"}, "node_mem_available_kib": {"node_mem_free_kib"},
	}},
}

func (t *recordTable) plan() rowcodec.Plan {
	of := recordPlans[t.name]
	plan := rowcodec.Plan{Key: slices.Index(t.columns, of.key), Hints: map[int]rowcodec.Hint{}}
	for name, h := range of.hints {
		at, like, less := slices.Index(t.columns, name), slices.Index(t.columns, h[0]), slices.Index(t.columns, h[1])
		hasLess := less >= 0 || h[1] == ""
		if at >= 0 && like >= 0 && hasLess {
			plan.Hints[at] = rowcodec.Hint{Like: like, Less: less}
		}
	}
	return plan
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

// recordTables returns the tables of a database in the order of a record: those of the run and the
// host first. Tables without a primary key have the column rowid, to which keyframes refer.
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
		hasKey := false
		err := c.each("PRAGMA table_info("+name+")", nil, func(row []driver.Value) error {
			t.columns = append(t.columns, fmt.Sprint(row[1]))
			hasKey = hasKey || row[5] != int64(0)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if !hasKey {
			t.columns = slices.Insert(t.columns, 0, "rowid")
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

// WriteRecord writes the complete record of a run, from which ReadRecord makes a spool file with the
// same rows. It has everything but the state of the delivery. The run's tracker may be alive: the
// record is of one moment.
func WriteRecord(ctx context.Context, w io.Writer, r *Reader) error {
	held, err := r.db.hold()
	if err != nil {
		return describe(r.path, err)
	}
	err = r.writeRecord(ctx, w)
	return errors.Join(err, held.Close())
}

func (r *Reader) writeRecord(ctx context.Context, w io.Writer) error {
	all, err := r.db.recordTables()
	if err != nil {
		return r.broken(err)
	}
	var tables []recordTable
	for _, t := range all {
		row, err := r.db.query("SELECT 1 FROM " + t.rows() + " LIMIT 1")
		if err != nil {
			return r.broken(err)
		}
		if row != nil {
			tables = append(tables, t)
		}
	}
	out := newRecordWriter(w)
	err = out.frame(packTables(tables))
	for i := range tables {
		if err == nil {
			err = r.writeTable(ctx, out, i, &tables[i])
		}
	}
	if err == nil {
		err = out.end()
	}
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.path, err)
	}
	return nil
}

// writeTable writes the rows of a table in frames of a bounded size.
func (r *Reader) writeTable(ctx context.Context, out *recordWriter, number int, t *recordTable) error {
	most := rowcodec.MaxValues / len(t.columns)
	var rows [][]driver.Value
	text := 0
	state := -1
	if t.name == "run" {
		state = slices.Index(t.columns, "state")
	}
	var failed error // of out
	err := r.db.stream(ctx, "SELECT "+t.quoted()+" FROM "+t.rows()+" ORDER BY rowid", nil, func(row []driver.Value) error {
		row = slices.Clone(row)
		if state >= 0 && row[state] == string(rt.StateDelivered) {
			row[state] = string(rt.StateEnded)
		}
		rows = append(rows, row)
		text += textOf(row)
		if len(rows) >= most || text >= frameText {
			failed = out.rows(number, t, rows)
			rows, text = rows[:0], 0
		}
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return r.broken(err)
	case len(rows) > 0:
		return out.rows(number, t, rows)
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
type recordWriter struct{ w *bufio.Writer }

func newRecordWriter(w io.Writer) *recordWriter {
	out := &recordWriter{bufio.NewWriterSize(w, 64<<10)}
	out.w.WriteString(recordMagic) // end returns the error
	return out
}

func (o *recordWriter) frame(content []byte) error {
	frame := append(binary.AppendUvarint(nil, uint64(len(content))), content...)
	_, err := o.w.Write(binary.BigEndian.AppendUint32(frame, crc32.Checksum(content, castagnoli)))
	return err
}

// rows writes a frame with rows of a table.
func (o *recordWriter) rows(number int, t *recordTable, rows [][]driver.Value) error {
	head := binary.AppendUvarint(nil, uint64(number))
	head = binary.AppendUvarint(head, uint64(len(rows)))
	return o.frame(rowcodec.Append(head, t.plan(), rows))
}

func (o *recordWriter) end() error {
	return errors.Join(o.w.WriteByte(0), o.w.Flush())
}

// packTables encodes the list of tables: a line each with its name and columns, deflated.
func packTables(tables []recordTable) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	for _, t := range tables {
		if err == nil {
			_, err = fmt.Fprintln(w, t.name, strings.Join(t.columns, " "))
		}
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return out.Bytes()
}
