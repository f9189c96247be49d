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
	if err := r.log.withTimeout(func() error { return r.db.inTx(f) }); err != nil {
		return fmt.Errorf("%s: %w", what, describe(r.path, err))
	}
	return nil
}

// AddEvent adds a line to the quality ledger.
func (r *Reader) AddEvent(e rt.Event) error {
	return r.change("add an event", func() error { return r.db.insert("event", columnsOf(&e)) })
}

// lastWall selects the time of the last snapshot, in microseconds.
const lastWall = "SELECT wall_us FROM snapshot ORDER BY seq DESC LIMIT 1"

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
		return errors.Join(r.db.insert("event", columnsOf(&event)), r.log.noteMissing(exit.Time))
	})
	if err != nil {
		return err
	}
	if err := r.log.tidy(); err != nil {
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
	if err := removeFiles(r.path); err != nil {
		return err
	}
	err := removeLock(r.path)
	if failed := file.SyncDir(filepath.Dir(r.path)); failed != nil {
		err = errors.Join(err, fmt.Errorf("sync the spool directory: %w", failed))
	}
	return err
}

// removeFiles deletes a database and its logs. The database is the first, because without its log it would lack readings.
func removeFiles(db string) error {
	for _, path := range []string{db, db + "-wal", db + "-shm", db + "-journal"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the spool file: %w", err)
		}
	}
	return nil
}

// removeLock deletes the lock file of a tracker that was killed.
func removeLock(db string) error {
	if err := os.Remove(lockPath(db)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the lock of a dead tracker: %w", err)
	}
	return nil
}
