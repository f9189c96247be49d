package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/resource-tracker/rt"
)

// Bounds of records, in bytes of their bodies: of one, of pending ones before a commit, and of
// pending ones while the disk refuses them.
const (
	maxRecord     = 1 << 20
	commitRecords = 64 << 10
	maxRecords    = 2 << 20
)

// records are those that are not committed yet.
type records struct {
	list    []rt.ForeignReport
	bytes   int
	dropped int // beyond maxRecords
}

func (r *records) reset() { *r = records{list: r.list[:0]} }

// Record stores a report of another program with the run, with the next commit. A report above
// 1 MiB is refused. While the disk refuses writes, 2 MiB of reports are kept in memory; the
// ledger records how many were dropped.
func (w *Writer) Record(r rt.ForeignReport) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return fmt.Errorf("record into %s: %w", w.path, ErrClosed)
	}
	if len(r.Body) > maxRecord {
		return fmt.Errorf("record into %s: a report of %s has %d bytes, the limit is %d: configure it to send smaller reports", w.path, r.Source, len(r.Body), maxRecord)
	}
	if w.records.bytes+len(r.Body) > maxRecords {
		w.records.dropped++
		return nil
	}
	r.Body = bytes.Clone(r.Body)
	w.records.list = append(w.records.list, r)
	w.records.bytes += len(r.Body)
	if w.records.bytes >= commitRecords {
		w.flush() // a failure is in the ledger; the records wait
	}
	return nil
}

func (w *Writer) writeRecords() error {
	for i := range w.records.list {
		r := &w.records.list[i]
		if err := w.db.insertRecord(r); err != nil {
			return err
		}
	}
	if w.records.dropped == 0 {
		return nil
	}
	return w.db.insert("event", columnsOf(&rt.Event{
		Time: time.Unix(0, w.records.list[len(w.records.list)-1].Time).UTC(), Kind: "spool", Name: "record", Status: "failed",
		Detail: fmt.Sprintf("%d reports of other programs were dropped: they could not be written in time", w.records.dropped),
	}))
}

func (c *conn) insertRecord(r *rt.ForeignReport) error {
	_, err := c.change("INSERT INTO record (time_us, source, body) VALUES (?, ?, ?)", r.Time/1000, textValue(r.Source), string(r.Body))
	return err
}

const selectRecord = "SELECT time_us, source, body FROM record WHERE "

func scanRecord(row []driver.Value) (rec rt.ForeignReport, err error) {
	var body string
	err = scan(row, []column{{"time_us", &rec.Time}, {"source", &rec.Source}, {"body", &body}})
	rec.Time, rec.Body = rec.Time*1000, []byte(body)
	return rec, err
}

// Records iterates over the reports of a source, or over all if source is empty, in the order
// of their arrival. Times are in whole microseconds. The caller may keep a body. After an
// error there is no further record.
func (r *Reader) Records(ctx context.Context, source string) iter.Seq2[rt.ForeignReport, error] {
	return func(yield func(rt.ForeignReport, error) bool) {
		err := r.db.stream(ctx, selectRecord+"?1 = '' OR source = ?1 ORDER BY id", []driver.Value{source}, func(row []driver.Value) error {
			rec, err := scanRecord(row)
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read %s: %w", r.path, err)
			}
			if !yield(rec, nil) {
				return io.EOF
			}
			return nil
		})
		if err != nil && !errors.Is(err, io.EOF) {
			yield(rt.ForeignReport{}, refused(r.path, err))
		}
	}
}

// RecordsBefore returns the newest n reports of a source that arrived at or before a time
// (nanoseconds since the epoch), the newest first.
func (r *Reader) RecordsBefore(source string, at int64, n int) (list []rt.ForeignReport, err error) {
	err = r.db.each(selectRecord+"source = ? AND time_us <= ? ORDER BY id DESC LIMIT ?", []driver.Value{source, at / 1000, int64(n)},
		func(row []driver.Value) error {
			rec, err := scanRecord(row)
			list = append(list, rec)
			return err
		})
	if err != nil {
		return nil, refused(r.path, err)
	}
	return list, nil
}

// AddRecords stores reports of other programs with a run that has no tracker any more, and
// adds entry to the ledger. Reports that are stored already, with the same time, source and
// body, are skipped; if all are, nothing changes. It returns how many were added. If the
// tracker is alive, the error is ErrLive.
func (r *Reader) AddRecords(list []rt.ForeignReport, entry rt.Event) (added int, err error) {
	if err := r.ended("add reports"); err != nil {
		return 0, err
	}
	err = r.change("add reports", func() error {
		fresh, err := unknownReports(r, list)
		added = len(fresh)
		if err != nil || added == 0 {
			return err
		}
		for _, rec := range fresh {
			if err := r.db.insertRecord(rec); err != nil {
				return err
			}
		}
		return r.db.insert("event", columnsOf(&entry))
	})
	if err != nil {
		return 0, err
	}
	return added, nil
}

// unknownReports returns the reports of a list that are not stored yet, each once.
func unknownReports(r *Reader, list []rt.ForeignReport) (fresh []*rt.ForeignReport, err error) {
	known := map[[sha256.Size]byte]bool{}
	for rec, err := range r.Records(context.Background(), "") {
		if err != nil {
			return nil, err
		}
		known[recordKey(&rec)] = true
	}
	for i := range list {
		if key := recordKey(&list[i]); !known[key] {
			known[key] = true
			fresh = append(fresh, &list[i])
		}
	}
	return fresh, nil
}

// recordKey identifies a record.
func recordKey(rec *rt.ForeignReport) [sha256.Size]byte {
	head := fmt.Appendf(nil, "%d %s\n", rec.Time/1000, rec.Source)
	return sha256.Sum256(append(head, rec.Body...))
}
