package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
)

// The files that SQLite writes beside a database: the log of a run that is tracked, the
// journal of a change to one that has ended.

// keepLog looks whether the log is there that a run in state running has from its first
// instant to its end. There was one: it stays when this Reader is the last to close.
func (r *Reader) keepLog(there bool) error {
	if there {
		if r.readOnly {
			return nil
		}
		return r.db.keepLog(true)
	}
	alive, err := r.Live()
	r.noLog = err == nil && !alive
	return err
}

// missingStatus marks the event that says that a run was closed without its log.
const missingStatus = "missing"

// noLogText says what a missing log may have cost.
func noLogText(last int64) string {
	return fmt.Sprintf("the WAL of this run is missing: snapshots after number %d may be lost, unless sqlite3 was run on the file, which brings the WAL into it", last)
}

// noteNoLog puts it into the ledger of a run that is closed.
func (r *Reader) noteNoLog(at time.Time) error {
	if !r.noLog {
		return nil
	}
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	return r.addEvent(&rt.Event{Time: at, Kind: "spool", Name: "log", Status: missingStatus, Detail: noLogText(last)})
}

// log looks for the log: beside the file of a run without an end, in the ledger of others.
func (v *verifier) log() {
	if v.r.noLog && v.r.run.State == rt.StateRunning {
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

// journaled runs f, which changes a database. Its commits are on the disk when they
// return: to zero the journal's header is synced, to remove the journal is not.
func (r *Reader) journaled(f func() error) error {
	inLog, err := r.db.inLog()
	if err != nil || inLog {
		return errors.Join(err, f())
	}
	if err := errors.Join(hideJournal(r.path), r.db.exec("PRAGMA journal_mode = PERSIST")); err != nil {
		return err
	}
	return errors.Join(f(), r.db.exec("PRAGMA journal_mode = DELETE"))
}

// sweep removes what stands beside a file without a log: the journal of a change that was
// broken off and is undone already, and an empty log, which was to be removed when the
// disk refused that.
func (r *Reader) sweep() error {
	if st, err := os.Lstat(r.path + "-wal"); err == nil && st.Mode().IsRegular() && st.Size() == 0 {
		if err := os.Remove(r.path + "-wal"); err != nil {
			return fmt.Errorf("remove an empty log: %w", err)
		}
	}
	if !exists(r.path + "-journal") {
		return nil
	}
	return r.journaled(func() error { return nil })
}

// hideJournal makes the journal of a file that others may read: SQLite would give it the
// file's mode, without the list of who they are, and the members of the file's group
// could read it. To one that is not empty it leaves its mode; the zero at its beginning
// says that there is nothing in it. Root's is given to the file's owner, as SQLite does when
// it opens it: should we die before, he could not open his database beside it.
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
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// hideLog takes the log of a file that others may read from them. No lock is on it.
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
