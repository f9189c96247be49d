package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
)

// These methods change the file. Each change is one transaction, which is on disk when the method
// returns.

// change runs f in a transaction.
func (r *Reader) change(what string, f func() error) error {
	if r.readOnly {
		return fmt.Errorf("%s in %s: %w: the file or its directory may not be written", what, r.path, ErrReadOnly)
	}
	if err := r.withTimeout(func() error { return r.db.inTx(f) }); err != nil {
		return fmt.Errorf("%s: %w", what, describe(r.path, err))
	}
	return nil
}

// AddEvent adds a line to the quality ledger.
func (r *Reader) AddEvent(e rt.Event) error {
	return r.change("add an event", func() error { return r.addEvent(&e) })
}

func (r *Reader) addEvent(e *rt.Event) error { return r.db.insert("event", columnsOf(e)) }

// SaveRegistration replaces what is known about the run at the receiver.
func (r *Reader) SaveRegistration(reg rt.Registration) error {
	return r.change("save the registration", func() error {
		return r.db.insert("registration", append(columnsOf(&reg), column{"id", new(1)}))
	})
}

// SealBatch stores the description of a batch before any of its bytes is sent. The batch must
// either start directly after the last batch, or have the number and the snapshots of an earlier
// batch, which it replaces. The first batch starts at snapshot 1, or at 2, where the first interval
// ends. Otherwise the error is ErrOutOfOrder.
func (r *Reader) SealBatch(b rt.Batch) error {
	return r.change("seal a batch", func() error {
		newest, err := r.LastSeq()
		if err != nil {
			return err
		}
		list, err := r.Batches()
		if err != nil {
			return err
		}
		if err := fits(b, list, newest); err != nil {
			return err
		}
		if err := r.stillThere(b); err != nil {
			return err
		}
		return r.db.insert("batch", columnsOf(&b))
	})
}

// lastWall selects the time of the last snapshot, in microseconds.
const lastWall = "SELECT wall_us FROM snapshot ORDER BY seq DESC LIMIT 1"

// stillThere returns an error if the tracker has thinned snapshots of a batch since they were read.
func (r *Reader) stillThere(b rt.Batch) error {
	if gone, err := thinned(r.db); err != nil || gone == 0 {
		return err
	}
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot WHERE seq BETWEEN ? AND ?", b.FirstSeq, b.LastSeq)
	if err == nil && n < int64(b.Rows) {
		err = fmt.Errorf("%w: number %d has %d rows of the snapshots %d to %d, and %d are left because some were thinned; the batch must be made again",
			ErrOutOfOrder, b.Number, b.Rows, b.FirstSeq, b.LastSeq, n)
	}
	return err
}

// fits returns an error if b neither continues the batches of the list nor replaces one.
func fits(b rt.Batch, list []rt.Batch, newest int64) error {
	if n := b.Number; n >= 1 && n <= len(list) {
		if old := list[n-1]; b.FirstSeq != old.FirstSeq || b.LastSeq != old.LastSeq || b.Rows != old.Rows {
			return fmt.Errorf("%w: number %d is sealed with %d rows of the snapshots %d to %d, not with %d of %d to %d",
				ErrOutOfOrder, n, old.Rows, old.FirstSeq, old.LastSeq, b.Rows, b.FirstSeq, b.LastSeq)
		}
		return nil
	}
	last := int64(0)
	if len(list) > 0 {
		last = list[len(list)-1].LastSeq
	}
	if b.Number != len(list)+1 || !follows(b, last) || b.LastSeq > newest {
		return fmt.Errorf("%w: number %d of the snapshots %d to %d, after %d batches that end at %d, with %d snapshots stored",
			ErrOutOfOrder, b.Number, b.FirstSeq, b.LastSeq, len(list), last, newest)
	}
	return nil
}

// follows reports whether b begins directly after snapshot last. The first snapshot may be
// omitted: no interval ends there.
func follows(b rt.Batch, last int64) bool {
	return b.LastSeq >= b.FirstSeq && (b.FirstSeq == last+1 || last == 0 && b.FirstSeq == 2)
}

// MarkUploaded records that the receiver has confirmed a batch.
func (r *Reader) MarkUploaded(number int, at time.Time) error {
	return r.change("mark a batch as uploaded", func() error {
		n, err := r.db.change("UPDATE batch SET uploaded_us = ? WHERE number = ?", at.UnixMicro(), int64(number))
		if err == nil && n != 1 {
			err = fmt.Errorf("%s: no batch has the number %d", r.path, number)
		}
		return err
	})
}

// MarkDelivered records that a receiver has confirmed all of an ended run.
func (r *Reader) MarkDelivered(at time.Time) error {
	if err := r.ended("mark as delivered"); err != nil {
		return err
	}
	run := r.run
	if run.State == rt.StateRunning {
		return fmt.Errorf("mark %s as delivered: the run has not ended", r.path)
	}
	run.State = rt.StateDelivered
	return r.changeRun("mark the run as delivered", run, func() error {
		_, err := r.db.change("UPDATE run SET delivered_us = ?", at.UnixMicro())
		return err
	})
}

// SendAgain makes an ended run of a delivered one, for a receiver that was restored from a backup. The next
// delivery asks the receiver whether it knows the run, and repeats what it lacks. That needs a receiver that
// answers for a finished run: one that takes records. SendAgain returns false, and changes nothing, if the run
// was delivered to another endpoint or to a receiver without records, or is not delivered.
func (r *Reader) SendAgain(endpoint string, why rt.Event) (bool, error) {
	if err := r.ended("send again"); err != nil {
		return false, err
	}
	reg, _, err := r.Registration()
	isIts := reg.Endpoint == endpoint && reg.Record
	if err != nil || !isIts || r.run.State != rt.StateDelivered {
		return false, err
	}
	reg.FinishIntentAt, reg.FinishedAt = time.Time{}, time.Time{}
	run := r.run
	run.State = rt.StateEnded
	err = r.changeRun("send the run again", run, func() error {
		_, err := r.db.change("UPDATE run SET delivered_us = NULL")
		return errors.Join(err, r.db.insert("registration", append(columnsOf(&reg), column{"id", new(1)})), r.addEvent(&why))
	})
	return err == nil, err
}

// UpdateRun replaces the description of a run without a tracker, for example after a query of the
// scheduler's accounting. If the run's tracker is alive, the error is ErrLive, because only the
// tracker may change the run.
func (r *Reader) UpdateRun(run rt.Run) error {
	if err := r.ended("update the run"); err != nil {
		return err
	}
	return r.changeRun("update the run", run, func() error { return nil })
}

// UpdateHost replaces the description of the machine, because parts arrive late. The run's tracker
// may be alive.
func (r *Reader) UpdateHost(h rt.Host) error {
	err := r.change("update the description of the machine", func() error { return r.db.update("host", columnsOf(&h)) })
	if err == nil {
		r.host = h
	}
	return err
}

// CloseLost ends a run after its tracker died or its machine was rebooted. bootID, which
// distinguishes the two cases, is the current boot id of this machine; it is empty on another
// machine. exit has what is known about the end of the job; an empty outcome becomes OutcomeLost.
// If exit has no time, the run ends at its last snapshot. If the tracker is alive, the error is
// ErrLive. A run that has ended is not changed.
func (r *Reader) CloseLost(exit rt.Exit, bootID string) error {
	if err := r.ended("close the run as lost"); err != nil {
		return err
	}
	run := r.run
	if run.State != rt.StateRunning {
		return nil
	}
	if exit.Outcome == rt.OutcomeNone {
		exit.Outcome, exit.Source = rt.OutcomeLost, "drain"
	}
	last, err := r.db.queryInt(lastWall)
	if err != nil {
		return describe(r.path, err)
	}
	if run.End.IsZero() && last > 0 {
		run.End = time.UnixMicro(last).UTC()
	}
	run.Apply(exit)
	run.State = rt.StateEnded
	event := rt.Event{Time: exit.Time, Kind: "drain", Name: "tracker", Status: "failed", Detail: "the tracker died before the run ended"}
	if bootID != "" && bootID != run.BootID {
		event.Detail = "the machine was rebooted before the run ended"
	}
	err = r.changeRun("close the run as lost", run, func() error {
		return errors.Join(r.addEvent(&event), r.noteNoLog(exit.Time))
	})
	if err != nil {
		return err
	}
	if err := r.tidy(); err != nil {
		return describe(r.path, err)
	}
	return removeLock(r.path)
}

// ended returns an error if the run's tracker is alive. If the tracker has exited since the file
// was opened, ended reads the run again.
func (r *Reader) ended(what string) error {
	alive, err := r.Live()
	if err == nil && alive {
		err = ErrLive
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", r.path, what, err)
	}
	return r.load()
}

// changeRun writes the run and runs f in one transaction.
func (r *Reader) changeRun(what string, run rt.Run, f func() error) error {
	err := r.change(what, func() error {
		if err := r.db.update("run", columnsOf(&run)); err != nil {
			return err
		}
		return f()
	})
	if err == nil {
		r.run = run
	}
	return err
}

// Remove closes and deletes the run's file and the files of SQLite next to it. If the
// tracker is alive, the error is ErrLive.
func (r *Reader) Remove() error {
	if err := r.ended("remove"); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return fmt.Errorf("remove %s: %w", r.path, err)
	}
	// The database is removed first, because a database without its log would lack readings.
	for _, path := range []string{r.path, r.path + "-wal", r.path + "-shm", r.path + "-journal"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the spool file: %w", err)
		}
	}
	err := removeLock(r.path)
	if failed := file.SyncDir(filepath.Dir(r.path)); failed != nil {
		err = errors.Join(err, fmt.Errorf("sync the spool directory: %w", failed))
	}
	return err
}

// removeLock deletes the lock file of a tracker that was killed.
func removeLock(db string) error {
	if err := os.Remove(lockPath(db)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lock of a dead tracker: %w", err)
	}
	return nil
}
