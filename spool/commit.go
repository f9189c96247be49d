package spool

import (
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// transaction writes all that waits, all or nothing.
func (w *Writer) transaction() error {
	if err := w.begin.run(); err != nil {
		return err
	}
	w.enc.begin()
	err := w.writePending()
	if err == nil {
		err = w.commit.run()
	}
	if err == nil {
		return nil
	}
	w.enc.rollback()
	if !w.db.c.AutoCommit() {
		err = errors.Join(err, w.undo.run())
	}
	return err
}

func (w *Writer) writePending() error {
	for _, row := range w.rows.rows {
		if err := w.enc.put(row); err != nil {
			return err
		}
	}
	for i := range w.events {
		if err := w.writeEvent(&w.events[i]); err != nil {
			return err
		}
	}
	if err := w.writeLoss(); err != nil {
		return err
	}
	if err := w.writeRecords(); err != nil {
		return err
	}
	if !w.runDirty {
		return nil
	}
	columns := runColumns(&w.run)
	_, err := w.db.change(updateSQL("run", columns), values(columns)...)
	return err
}

// mergedStatus marks events that count what memory had no room for: such snapshots
// never had a number, so these are none of the thinned ones.
const mergedStatus = "merged"

// writeLoss says what went while another process had the database for long; after a
// failure of the disk recover says it.
func (w *Writer) writeLoss() error {
	if w.failing || w.rows.merged == 0 && w.unkept == 0 {
		return nil
	}
	e := w.fault(mergedStatus, fmt.Sprintf("another process kept the file locked: %d snapshots were thinned in memory, those that follow them carry their totals; %d events dropped", w.rows.merged, w.unkept))
	return w.writeEvent(&e)
}

func (w *Writer) writeEvent(e *rt.Event) error {
	for i, c := range eventColumns(e) {
		w.event.args[i].Value = encode(c.field)
	}
	return w.event.run()
}

// flush commits what waits. Its first failure is noted in the ledger, and so is
// the first success after one.
func (w *Writer) flush() error {
	w.fresh = 0
	if len(w.rows.rows) == 0 && len(w.events) == 0 && len(w.records.list) == 0 && !w.runDirty {
		return nil
	}
	if w.failing {
		return w.recover()
	}
	err := w.transaction()
	if err == nil {
		w.written()
		w.quotaState(w.enforce())
		return nil
	}
	if !busy(err) {
		w.failing = true
		e := w.fault("failed", "snapshots wait in memory: "+err.Error())
		w.note(e)
		w.tell(e)
	}
	return fmt.Errorf("write %s: %w", w.path, err)
}

// recover is flush after a failure.
func (w *Writer) recover() error {
	// A full disk may still let the log be emptied into the database. Where it
	// does not, the transaction below says why.
	_ = w.db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
	w.quotaState(w.makeRoom())
	e := w.fault("ok", fmt.Sprintf("snapshots are written again; %d were thinned, %d events dropped", w.rows.merged, w.unkept))
	waiting := len(w.events)
	w.events = append(w.events, e)
	if err := w.transaction(); err != nil {
		w.events = w.events[:waiting]
		w.tell(w.fault("failed", "snapshots still wait in memory: "+err.Error()))
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	w.failing = false
	w.written()
	w.tell(e)
	return nil
}

// written forgets what is stored.
func (w *Writer) written() {
	w.rows.reset()
	w.events, w.unkept = w.events[:0], 0
	w.records.reset()
	w.runDirty = false
	if !w.normal { // see open
		w.normal = w.db.exec("PRAGMA synchronous = NORMAL") == nil
	}
	w.sync.begin(w.path, w.told.now)
}

// fault is an event of the spool, at the time of the newest thing that waits.
func (w *Writer) fault(status, detail string) rt.Event {
	e := rt.Event{Kind: "spool", Name: w.path, Status: status, Detail: detail}
	if n := len(w.rows.rows); n > 0 {
		e.Time = time.Unix(0, w.rows.rows[n-1].Wall).UTC()
	} else if n := len(w.events); n > 0 {
		e.Time = w.events[n-1].Time
	}
	return e
}

// fold empties the log into the database and leaves one plain file, synced. It
// fails with a busy error while another connection is open. To leave WAL mode is to
// write the header of the first page, one sector, which the disk writes as a whole: it
// needs no journal, whose file and directory an Epilog would wait to be synced.
func fold(c *conn) error {
	if err := errors.Join(c.exec(pragma("busy_timeout", 100)), c.keepLog(false)); err != nil { // ms
		return err
	}
	if err := c.exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, mode := range [...]string{"MEMORY", "DELETE"} { // the second for what is written later
		if err := c.exec("PRAGMA journal_mode = " + mode); err != nil {
			return fmt.Errorf("leave WAL mode: %w", err)
		}
	}
	return nil
}
