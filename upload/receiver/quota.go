package receiver

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// quota counts the disk space of the runs, in total and for each owner. Space for an upload is
// reserved before its body is read, so uploads in progress count too.
type quota struct {
	total, each int64 // limits in bytes; 0: none

	mu   sync.Mutex
	used int64
	by   map[string]int64 // by owner; runs without an owner count only in used
}

// blockBytes is the disk space of the smallest file. Larger files take a multiple of it.
const blockBytes = 4 << 10

// journalBytes is the maximum disk space of the journal. newQuota subtracts it from the total.
const journalBytes = (maxFull + 2) * segmentBytes

// retryFull is the Retry-After of a request for which there is no space. The drain that gets it
// leaves the run to the next drain.
const retryFull = 5 * time.Minute

func newQuota(total, each int64) *quota {
	if total > 0 {
		total -= min(total/4, journalBytes)
	}
	return &quota{total: total, each: each, by: map[string]int64{}}
}

// counts reports whether there is a limit. Without a limit nothing is counted.
func (q *quota) counts() bool { return q.total > 0 || q.each > 0 }

// reserve adds bytes to the use of an owner. It fails with status 507 if they exceed a limit.
// release subtracts them again.
func (q *quota) reserve(owner string, bytes int64) (release func(), err error) {
	if !q.counts() {
		return func() {}, nil
	}
	bytes = blocks(bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	isTotal := q.total > 0 && q.used+bytes > q.total
	isOwn := q.each > 0 && q.by[owner]+bytes > q.each
	switch {
	case isOwn:
		return nil, noRoom("the runs of this token take %d of %d bytes (serve.token_quota)", q.by[owner], q.each)
	case isTotal:
		return nil, noRoom("the runs take %d of %d bytes (serve.quota)", q.used, q.total)
	}
	q.addLocked(owner, bytes)
	return func() { q.add(owner, -bytes) }, nil
}

// noRoom returns the answer to a request that was refused before it changed anything.
func noRoom(format string, args ...any) error {
	return &problem{
		status: http.StatusInsufficientStorage, code: "InsufficientStorage", retry: retryFull, undone: true,
		detail: "no room for this request: " + fmt.Sprintf(format, args...) + "; there is room again when old runs are removed",
	}
}

func (q *quota) add(owner string, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(owner, bytes)
}

func (q *quota) addLocked(owner string, bytes int64) {
	q.used += bytes
	if owner == "" {
		return
	}
	q.by[owner] += bytes
	if q.by[owner] == 0 {
		delete(q.by, owner)
	}
}

// blocks returns the disk space of a file of this size.
func blocks(bytes int64) int64 { return (bytes + blockBytes - 1) / blockBytes * blockBytes }

// sizeOf returns the disk space of a file, or of a directory with all that it contains; 0 if path
// does not exist.
func sizeOf(path string) (bytes int64) {
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed in the meantime, or not there
		}
		size := int64(blockBytes) // a directory; its own growth is small compared with that of its files
		if info, err := d.Info(); err == nil && !d.IsDir() {
			size = max(size, blocks(info.Size()))
		}
		bytes += size
		return nil
	})
	return bytes
}

// counted calls change, which changes the named files of a run. It adds the change of their disk
// space to the use of the owner. The caller has locked the run.
func (s *store) counted(owner, id string, change func() error, names ...string) error {
	if !s.quota.counts() {
		return change()
	}
	size := func() (bytes int64) {
		for _, path := range []string{s.runDir(id), filepath.Join(s.runDir(id), "objects")} {
			if _, err := os.Stat(path); err == nil {
				bytes += blockBytes
			}
		}
		for _, name := range names {
			bytes += sizeOf(filepath.Join(s.dir, name))
		}
		return bytes
	}
	before := size()
	err := change() // it may have written some of the files before it failed
	s.quota.add(owner, size()-before)
	return err
}

// count adds the runs in the store to the quota. Runs with files in the journal are added after the
// files are in place.
func (s *store) count() error {
	if !s.quota.counts() {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return fmt.Errorf("count the disk space of the runs: %w", err)
	}
	for _, e := range entries {
		if !s.journal.holds(e.Name()) {
			s.countRun(e.Name())
		}
	}
	return nil
}

// countRun adds a run to the quota.
func (s *store) countRun(id string) {
	if s.quota.counts() {
		r, _ := s.load(id) // a damaged run has no owner
		s.quota.add(r.Owner, sizeOf(s.runDir(id)))
	}
}
