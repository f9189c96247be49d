package spool

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// walPages is the size of the log, in pages, at which SQLite copies it to the database. On a small
// disk this size is smaller, see logPages.
const walPages = 256

// Writer appends to the file of one run. Its methods may be called from several goroutines and
// do not retain their arguments.
type Writer struct {
	path string
	opts Options

	mu   sync.Mutex
	lock *liveLock
	db   *conn // nil once closed
	out  snapshotWriter

	run      rt.Run
	runDirty bool
	rows     pending
	fresh    int   // snapshots since the last attempt to commit
	freshAt  int64 // Boot of the first of them
	events   pendingEvents
	records  records
	clock    clock
	failing  bool // the last commit failed, not only because another process had a lock
	closing  bool // the run ends or the file is closed: this commit may use the reserve of the disk
	notified notified
	granted  grantedAccess
	quota    quota
	normal   bool // PRAGMA synchronous is NORMAL, which the first commit sets; see open
	sync     logSync
}

// clock is the time of the newest snapshot on the boot clock and on the run's clock, in nanoseconds. A change of the
// system clock affects neither.
type clock struct{ boot, wall int64 }

// now returns the present time on the clock of the snapshots, or of the system before the first snapshot.
func (c *clock) now() time.Time {
	var boot unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil || c.wall == 0 {
		return time.Now().UTC()
	}
	return time.Unix(0, c.wall+boot.Nano()-c.boot).UTC()
}

// last returns the time of the last snapshot, or the time now if there is none.
func (c *clock) last() time.Time {
	if c.wall == 0 {
		return time.Now().UTC()
	}
	return time.Unix(0, c.wall).UTC()
}

// Path returns the path of the run's file.
func (w *Writer) Path() string { return w.path }

// LockFile returns a duplicate of the descriptor of the run's lock. A process that inherits it keeps the run live
// until this process exits, even if the tracker dies. The lock file is removed when the run ends. Call LockFile
// before End and Close.
func (w *Writer) LockFile() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fd, err := unix.FcntlInt(w.lock.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate the descriptor of %s: %w", w.lock.path, err)
	}
	return os.NewFile(uintptr(fd), w.lock.path), nil
}

// Put copies a snapshot and commits if a commit is due. It commits the first snapshot, and each
// snapshot with a reason other than tick, at once. While writes to the disk fail, snapshots stay in
// memory and Put returns nil; the failure is recorded in the ledger and passed to Options.Notify.
func (w *Writer) Put(s *rt.Snapshot) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return fmt.Errorf("put into %s: %w", w.path, ErrClosed)
	}
	if len(w.rows.rows) >= w.opts.MaxPending {
		w.rows.thin()
	}
	w.rows.add(s)
	w.clock = clock{s.Boot, s.Wall}
	w.fresh++
	if w.fresh == 1 {
		w.freshAt = s.Boot
	}
	isFirst := w.out.seq == 0 && !w.failing
	isDue := w.fresh >= w.opts.CommitRows || s.Boot-w.freshAt >= int64(w.opts.CommitInterval)
	if isFirst || isDue || s.Reason != rt.ReasonTick {
		w.flush() // a failure is in the ledger; the rows wait
		return w.tooLarge()
	}
	return nil
}

// Event adds a line to the ledger. It commits a line of kind "job" at once, with everything that
// is pending. Other lines are committed with the next commit. An event without a time gets the
// present time of the run, see clock.
func (w *Writer) Event(e rt.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = w.clock.now()
	}
	w.events.addEvent(e)
	if e.Kind == "job" {
		w.flush()
	}
}

// UpdateRun replaces the description of the run, for example when metadata arrives late.
func (w *Writer) UpdateRun(run rt.Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return fmt.Errorf("update the run in %s: %w", w.path, ErrClosed)
	}
	w.run, w.runDirty = run, true
	return w.flush()
}

// Flush commits everything that is pending. After an error it remains pending.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return fmt.Errorf("flush %s: %w", w.path, ErrClosed)
	}
	return w.flush()
}

// End sets the state of the run to ended, commits everything that is pending, moves the log into
// the database, and releases the lock. After an error other than ErrClosed the file is still open
// and locked, and no pending row is dropped. Call End again, or Close to give up. If run.End is
// zero, the end is the time of the last snapshot, which a change of the system clock does not
// affect.
func (w *Writer) End(run rt.Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return fmt.Errorf("end %s: %w", w.path, ErrClosed)
	}
	run.State = rt.StateEnded
	if run.End.IsZero() {
		run.End = w.clock.last()
	}
	w.run, w.runDirty, w.closing = run, true, true
	w.grant()
	w.events.addRepeats()
	err := w.db.exec(pragma("busy_timeout", 1000)) // ms; this is the last commit, so it waits longer for a lock
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return fmt.Errorf("end the spool file %s: %d snapshots wait: %w", w.path, len(w.rows.rows), err)
	}
	return w.closeEnded()
}

// closeEnded moves the log of an ended run into the database, closes the file and releases the lock.
func (w *Writer) closeEnded() error {
	if err := fold(w.db); err != nil && !busy(err) { // busy: a reader has it open; the next Open folds it
		return fmt.Errorf("end the spool file %s: %w", w.path, err)
	}
	if err := w.close(true); err != nil {
		return fmt.Errorf("end the spool file %s: all is written, but %w: %w", w.path, ErrClosed, err)
	}
	return nil
}

// grantedAccess says whether Options.Access was applied, and for which user.
type grantedAccess struct {
	isDone bool
	to     rt.Opt[uint64]
}

// grant applies Options.Access to the file and its log. It does so again when the job's user has
// become known. If that fails, the run is still complete, and the ledger has the reason.
func (w *Writer) grant() {
	now := grantedAccess{true, w.run.UID}
	if w.granted == now {
		return
	}
	w.granted = now
	if err := w.opts.Access.grant(w.path, &w.run); err != nil {
		e := w.fault("failed", err.Error())
		e.Name = "access"
		w.events.addEvent(e)
		w.opts.Notify(e)
	}
}

// Close commits everything that is pending and closes the file without ending the run. If rows
// cannot be written, they are lost, and the error says how many. The lock file then remains
// without a lock. After a successful End, Close does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == nil {
		return nil
	}
	w.events.addRepeats()
	w.closing = true
	err := w.flush()
	lost := err != nil
	if lost {
		err = fmt.Errorf("%d snapshots are lost: %w", len(w.rows.rows), err)
	}
	return errors.Join(err, w.close(!lost))
}

// Discard closes and deletes a run that could not be written completely.
func (w *Writer) Discard() error {
	if err := w.Close(); err != nil {
		return err
	}
	r, err := Open(w.path)
	if err != nil {
		return err
	}
	return r.Remove()
}

func (w *Writer) close(removeLock bool) error {
	err := errors.Join(w.db.Close(), w.lock.release(removeLock))
	w.db = nil
	return err
}

// notifyEvery is the minimum time between two failures that are passed on.
const notifyEvery = time.Minute

// notified records what Options.Notify, or the ledger, has received.
type notified struct {
	at      int64 // Boot of the newest snapshot at the last failure that was passed
	ever    bool  // a failure was passed
	failing bool  // "failed" was passed, and no "ok" since
}

// wants reports whether to pass the event e. now is the Boot of the newest snapshot. A failure within
// notifyEvery of the last one is passed later, if it lasts. An "ok" is passed only after a "failed".
func (n *notified) wants(e *rt.Event, now int64) bool {
	if e.Status == "ok" {
		wasFailing := n.failing
		n.failing = false
		return wasFailing
	}
	tooSoon := n.ever && now-n.at < int64(notifyEvery)
	if n.failing || tooSoon {
		return false
	}
	*n = notified{at: now, ever: true, failing: true}
	return true
}

// notify passes an event of the spool to Options.Notify.
func (w *Writer) notify(e rt.Event) {
	if w.notified.wants(&e, w.clock.boot) {
		w.opts.Notify(e)
	}
}
