package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
)

// SQLite writes these files next to a database: the log of a tracked run, the journal of a change
// to an ended run.

// runLog is the log of a run, and the journal of a change to one that has ended.
type runLog struct {
	path      string // of the run
	db        *conn
	isMissing bool // the run has no tracker and its log is missing
}

// keep checks for the log, which a run in state running has from its beginning to its end.
// A log stays, even if this Reader is the last one that closes the file.
func (l *runLog) keep(there, readOnly bool) error {
	if there {
		if readOnly {
			return nil
		}
		return l.db.keepLog(true)
	}
	alive, err := Live(l.path)
	l.isMissing = err == nil && !alive
	return err
}

// missingStatus marks the event of a run that was closed while its log was missing.
const missingStatus = "missing"

// noLogText describes what can be lost with a missing log.
func noLogText(last int64) string {
	return fmt.Sprintf("the WAL of this run is missing: snapshots after number %d may be lost, unless sqlite3 was run on the file, which moves the WAL into it", last)
}

// noteMissing adds noLogText to the ledger of a run that is closed.
func (l *runLog) noteMissing(at time.Time) error {
	if !l.isMissing {
		return nil
	}
	last, err := l.db.queryInt(lastSeq)
	if err != nil {
		return err
	}
	return l.db.insert("event", columnsOf(&rt.Event{Time: at, Kind: "spool", Name: "log", Status: missingStatus, Detail: noLogText(last)}))
}

// log reports a missing log: of a run without an end from its files, of others from the ledger.
func (v *verifier) log() {
	if v.r.log.isMissing && v.r.run.State == rt.StateRunning {
		v.add("%s", noLogText(v.last))
		return
	}
	events, err := v.r.Events()
	if err != nil {
		v.add("the ledger cannot be read: %v", err)
	}
	for _, e := range events {
		if e.Kind == "spool" && e.Status == missingStatus {
			v.add("%s", e.Detail)
		}
	}
}

// tidy moves the log of an ended run into the database, unless another process has it open.
func (l *runLog) tidy() error {
	inLog, err := l.db.inLog()
	switch {
	case err != nil:
		return err
	case !inLog:
		return l.sweep()
	}
	err = fold(l.db)
	if busy(err) {
		err = hideLog(l.path)
	}
	return errors.Join(err, l.db.exec(pragma("busy_timeout", busyTimeout)))
}

// withTimeout runs f, which changes the file, with the busy timeout that fits the run's state.
func (l *runLog) withTimeout(f func() error) error {
	alive, err := Live(l.path)
	if err != nil || alive {
		return errors.Join(err, f())
	}
	if err := l.db.exec(pragma("busy_timeout", busyTimeoutEnded)); err != nil {
		return err
	}
	return errors.Join(l.journaled(f), l.db.exec(pragma("busy_timeout", busyTimeout)))
}

// journaled runs f, which changes a database. Its commits are on the disk when they return:
// SQLite syncs the zeroing of a journal header, but not the removal of a journal.
func (l *runLog) journaled(f func() error) error {
	inLog, err := l.db.inLog()
	if err != nil || inLog {
		return errors.Join(err, f())
	}
	if err := errors.Join(hideJournal(l.path), l.db.exec("PRAGMA journal_mode = PERSIST")); err != nil {
		return err
	}
	return errors.Join(f(), l.db.exec("PRAGMA journal_mode = DELETE"))
}

// sweep removes the files next to a database without a log. They are the journal of an interrupted
// change that is already rolled back, and an empty log.
func (l *runLog) sweep() error {
	if st, err := os.Lstat(l.path + "-wal"); err == nil && st.Mode().IsRegular() && st.Size() == 0 {
		if err := os.Remove(l.path + "-wal"); err != nil {
			return fmt.Errorf("remove an empty log: %w", err)
		}
	}
	if !exists(l.path + "-journal") {
		return nil
	}
	return l.journaled(func() error { return nil })
}

// hideJournal creates the journal of a file with an access control list. SQLite would create it
// with the mode of the file but without the list, so that the members of the file's group could
// read it. SQLite does not change the mode of a journal that is not empty; a zero in its first byte
// means that it contains nothing. If root creates the journal, the owner of the file becomes its
// owner, as in SQLite. Otherwise the owner could not open the database if this process died.
func hideJournal(path string) error {
	st, err := os.Lstat(path)
	if err != nil || st.Mode().Perm()&0o077 == 0 {
		return err
	}
	f, err := os.OpenFile(path+"-journal", os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner, ok := st.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = f.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err == nil {
		_, err = f.Write([]byte{0})
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// hideLog makes the log of a file with an access control list unreadable for other users. There
// is no lock on the log.
func hideLog(path string) error {
	f, err := os.OpenFile(path+"-wal", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Mode().Perm()&0o077 == 0 {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.Mode().IsRegular() || sys.Nlink != 1 {
		return fmt.Errorf("%s: %w: a log is a file with one name", f.Name(), ErrForeign)
	}
	return f.Chmod(0o600)
}

// logSyncEvery bounds how much of a tracked run a power failure can destroy.
const logSyncEvery = time.Minute

// logSync syncs the log in a goroutine of its own, so that readings do not wait for the disk.
// A commit itself is not synced.
type logSync struct {
	at     int64       // Boot of the last sync
	busy   atomic.Bool // a sync is running: there is never a second one
	synced atomic.Int64
}

// begin starts a sync of the log of the database at path if one is due; now is Boot. Errors
// are not reported: the next checkpoint syncs, too, and reports them.
func (l *logSync) begin(path string, now int64) {
	if now-l.at < int64(logSyncEvery) || !l.busy.CompareAndSwap(false, true) {
		return
	}
	l.at = now
	go func() {
		defer func() {
			_ = recover() // the checkpoint reports the same error
			l.busy.Store(false)
		}()
		// There is no lock on the log that closing another descriptor could drop. A run
		// that has ended has no log.
		f, err := os.OpenFile(path+"-wal", os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return
		}
		defer f.Close()
		if syscall.Fdatasync(int(f.Fd())) != nil {
			return
		}
		if l.synced.Load() > 0 || file.SyncDir(filepath.Dir(path)) == nil {
			l.synced.Add(1)
		}
	}()
}
