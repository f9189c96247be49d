package spool

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// logSyncEvery bounds what a power failure costs of a run that is tracked.
const logSyncEvery = time.Minute

// logSync brings what was committed to the disk, beside the thread that takes
// readings: a commit itself is not synced.
type logSync struct {
	at     int64       // Boot at the last one
	busy   atomic.Bool // one is under way: a slow disk gets no second
	synced atomic.Int64
}

// begin syncs the log of the database at path when it is time to; now is Boot. What
// goes wrong is told by the next checkpoint, which syncs too.
func (l *logSync) begin(path string, now int64) {
	if now-l.at < int64(logSyncEvery) || !l.busy.CompareAndSwap(false, true) {
		return
	}
	l.at = now
	go func() {
		defer func() {
			_ = recover() // the checkpoint would meet it too, where it is told
			l.busy.Store(false)
		}()
		// No lock is on the log, so another descriptor of it does no harm. Where the run
		// has ended there is none.
		f, err := os.OpenFile(path+"-wal", os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return
		}
		defer f.Close()
		if syscall.Fdatasync(int(f.Fd())) == nil && (l.synced.Load() > 0 || syncDir(filepath.Dir(path)) == nil) {
			l.synced.Add(1)
		}
	}()
}
