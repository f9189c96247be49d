package spool

import (
	"database/sql/driver"
	"strings"

	"github.com/resource-tracker/rt"
)

// snapshotWriter writes snapshots as rows. Its state belongs to the transaction: begin saves it, and
// rollback restores it.
type snapshotWriter struct {
	seq    int64       // of the last row
	bound  rt.Snapshot // columns point to its fields, not to its lists
	insert *stmt
	cores  *stmt
	lists  [len(storedLists)]listWriter

	columns []column
	ticks   []core
	blob    []byte

	savedSeq int64
	marks    [len(storedLists)]listMark
}

func (w *snapshotWriter) prepare(c *conn) (err error) {
	w.columns = snapshotColumns(&w.bound, everyFigure)
	w.insert, err = c.prepare("INSERT INTO snapshot (" + strings.Join(columnNamesOf(w.columns), ", ") + ") VALUES (" + placeholders(len(w.columns)) + ")")
	if err != nil {
		return err
	}
	w.cores, err = c.prepare("INSERT INTO core_ticks (seq, cores) VALUES (?, ?)")
	for i, l := range storedLists {
		w.lists[i] = l.writer(c)
	}
	return err
}

func (w *snapshotWriter) begin() {
	w.savedSeq = w.seq
	for i, l := range w.lists {
		w.marks[i] = l.begin()
	}
}

func (w *snapshotWriter) rollback() {
	w.seq = w.savedSeq
	for i, l := range w.lists {
		l.rollback(w.marks[i])
	}
}

// put writes one snapshot as the next row. The rows are numbered here, so that snapshots that
// were thinned in memory leave no gap. It stops at the first error: SQLite may have rolled back the
// transaction, and would commit each later row by itself.
func (w *snapshotWriter) put(s *rt.Snapshot) error {
	w.seq++
	w.bound = *s
	w.bound.Seq = w.seq
	w.insert.bindColumns(0, w.columns)
	if err := w.insert.run(); err != nil {
		return err
	}
	if err := w.putCores(s.CPUs); err != nil {
		return err
	}
	for _, l := range w.lists {
		if err := l.put(w.seq, s); err != nil {
			return err
		}
	}
	return nil
}

// putCores writes the counters of the CPUs, if there are any.
func (w *snapshotWriter) putCores(cpus []rt.CPUReading) error {
	w.ticks = loadCores(w.ticks, cpus)
	if len(w.ticks) == 0 {
		return nil
	}
	w.blob = appendCores(w.blob[:0], nil, w.ticks)
	w.cores.bindFrom(0, w.seq, driver.Value(w.blob))
	return w.cores.run()
}
