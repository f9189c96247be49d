package spool

import (
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// transaction writes everything that is pending, or nothing.
func (w *Writer) transaction() error {
	w.out.begin()
	err := w.db.inTx(w.writePending)
	if err != nil {
		w.out.rollback()
	}
	return err
}

func (w *Writer) writePending() error {
	for _, row := range w.rows.rows {
		if err := w.out.put(row); err != nil {
			return err
		}
	}
	for i := range w.events.list {
		if err := w.db.insert("event", columnsOf(&w.events.list[i])); err != nil {
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
	return w.db.update("run", columnsOf(&w.run))
}

// mergedStatus marks events that count snapshots for which there was no room in memory.
// These snapshots never had a number and are not counted as thinned.
const mergedStatus = "merged"

// writeLoss records what was lost while another process kept the database locked. After a
// failure of the disk, recover records it.
func (w *Writer) writeLoss() error {
	nothingLost := w.rows.merged == 0 && w.events.unkept == 0
	if w.failing || nothingLost {
		return nil
	}
	e := w.fault(mergedStatus, fmt.Sprintf("another process kept the file locked: %d snapshots were thinned in memory, those that follow them carry their totals; %d events dropped", w.rows.merged, w.events.unkept))
	return w.db.insert("event", columnsOf(&e))
}

// flush commits everything that is pending. The ledger gets the first failure, and the
// first success after one.
func (w *Writer) flush() error {
	w.fresh = 0
	if len(w.rows.rows) == 0 && len(w.events.list) == 0 && len(w.records.list) == 0 && !w.runDirty {
		return nil
	}
	w.quota.mayUseReserve = w.out.seq == 0 || w.closing
	if w.failing {
		return w.recover()
	}
	isFirst := w.out.seq == 0 && len(w.rows.rows) <= 1 // rt-prolog waits for it, and the file is too small to be thinned
	err := w.quota.checkReserve(thinReserve)
	if err != nil {
		w.noteQuota(w.quota.makeRoom())
		err = w.quota.checkReserve(lastReserve)
	}
	if err == nil {
		err = w.transaction()
	}
	if err == nil {
		w.written()
		if !isFirst {
			w.noteQuota(w.quota.enforce())
		}
		return nil
	}
	if !busy(err) {
		w.failing = true
		e := w.fault("failed", "snapshots wait in memory: "+err.Error())
		w.events.addEvent(e)
		w.notify(e)
	}
	return fmt.Errorf("write %s: %w", w.path, err)
}

// recover does the same as flush, after a failure.
func (w *Writer) recover() error {
	truncateLog(w.db) // that can succeed on a full disk
	w.noteQuota(w.quota.makeRoom())
	e := w.fault("ok", fmt.Sprintf("snapshots are written again; %d were thinned, %d events dropped", w.rows.merged, w.events.unkept))
	waiting := len(w.events.list)
	w.events.list = append(w.events.list, e)
	err := w.quota.checkReserve(lastReserve)
	if err == nil {
		err = w.transaction()
	}
	if err != nil {
		w.events.list = w.events.list[:waiting]
		w.notify(w.fault("failed", "snapshots still wait in memory: "+err.Error()))
		return fmt.Errorf("write %s: %w", w.path, err)
	}
	w.failing = false
	w.written()
	w.notify(e)
	return nil
}

// written drops what is stored from memory.
func (w *Writer) written() {
	w.rows.reset()
	w.events.list, w.events.unkept = w.events.list[:0], 0
	w.records.reset()
	w.runDirty = false
	if !w.normal { // see open
		w.normal = w.db.exec("PRAGMA synchronous = NORMAL") == nil
	}
	w.sync.begin(w.path, w.clock.boot)
}

// fault returns an event of the spool with the time of the newest pending item.
func (w *Writer) fault(status, detail string) rt.Event {
	e := rt.Event{Kind: "spool", Name: w.path, Status: status, Detail: detail}
	if n := len(w.rows.rows); n > 0 {
		e.Time = time.Unix(0, w.rows.rows[n-1].Wall).UTC()
	} else if n := len(w.events.list); n > 0 {
		e.Time = w.events.list[n-1].Time
	}
	if e.Time.IsZero() {
		e.Time = w.clock.now()
	}
	return e
}

// noteQuota adds the state of the quota to the ledger when it changes.
func (w *Writer) noteQuota(err error) {
	if e, isNews := w.quota.outcome(err); isNews {
		w.events.addEvent(e)
	}
}

// fold moves the log into the database and leaves one plain, synced file. It fails with a busy
// error while another connection is open. Leaving WAL mode changes one sector, the header of the
// first page. It needs no journal, because disks write a sector completely or not at all. An Epilog
// would wait for the sync of its file and directory.
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
