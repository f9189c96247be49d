package spool

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/internal/durable"
)

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
		if l.synced.Load() > 0 || durable.SyncDir(filepath.Dir(path)) == nil {
			l.synced.Add(1)
		}
	}()
}
