package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/durable"
)

// journal makes small files durable with few syncs. The files are first written to a segment of
// the journal. One sync of the segment serves all requests that arrived during the previous sync.
// Then the files are written to their places without a sync. At start the receiver writes the
// contents of the segments to their places again. A full segment is removed in the background,
// after a sync of the whole file system.
type journal struct {
	root string   // the names of files are relative to it
	dir  string   // of the segments
	fs   *os.File // a file on the file system
	warn func(error)
	// unused disables the journal if the kernel does not report failed writes: removing a
	// segment could then lose the only good copy.
	unused bool

	mu       sync.Mutex
	changed  *sync.Cond // full, removing or fault
	waiting  []*entry   // for the next write
	writing  bool
	seg      *segment // that is being written; nil for none
	number   int      // of the newest segment
	full     []*segment
	removing bool  // full segments
	fault    error // the disk has lost data: nothing is accepted until the next start
	// held has the names of files that no replay could write because the disk was full; nil for
	// none. Until a replay succeeds, fault refuses all data.
	held  map[string]bool
	tried time.Time // of the last replay
}

// segment is one file of the journal.
type segment struct {
	f       *os.File
	taken   int64          // bytes of records
	filled  int64          // bytes of the file: zeros after the records
	unended sync.WaitGroup // entries without their files in their places
}

// entry has the records of one request.
type entry struct {
	records []byte
	seg     *segment
	done    chan error
}

const (
	segmentBytes = 8 << 20
	// fillBytes is the number of bytes by which a segment grows. A sync that does not change
	// the size of the file costs half.
	fillBytes = 256 << 10
	// maxFull is the number of full segments above which requests wait. It limits the disk
	// space and the duration of a start.
	maxFull = 8
)

// openJournal replays the journal that a killed receiver has left.
func openJournal(root string, fs *os.File, warn func(error)) (*journal, error) {
	j := &journal{root: root, dir: filepath.Join(root, "journal"), fs: fs, warn: warn, unused: !syncfsReports(kernelRelease())}
	j.changed = sync.NewCond(&j.mu)
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the receiver's journal: %w", err)
	}
	err := j.replay()
	if isFull(err) {
		warn(fmt.Errorf("the disk is full (%w): the receiver serves what it has, and accepts data when there is room", err))
		return j, nil
	}
	if err != nil {
		return nil, fmt.Errorf("replay the receiver's journal %s: %w", j.dir, err)
	}
	return j, nil
}

// replayEvery is the time between two replays on a full disk.
const replayEvery = 5 * time.Second

// retry replays the journal again if the disk was full, and returns the fault after which no data
// is accepted, or nil. replayed is true if it has written files. placed is called with the runs of
// these files, before another request can change them.
func (j *journal) retry(placed func(id string)) (replayed bool, fault error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held == nil || time.Since(j.tried) < replayEvery {
		return false, j.fault
	}
	held := j.held
	err := j.replay()
	if err != nil && !isFull(err) {
		j.fault = err
	}
	if err == nil {
		for id := range runsOf(held) {
			placed(id)
		}
	}
	return err == nil, j.fault
}

// runsOf returns the runs of some files.
func runsOf(names map[string]bool) map[string]bool {
	ids := map[string]bool{}
	for name := range names {
		if parts := strings.Split(name, "/"); len(parts) > 2 && parts[0] == "runs" {
			ids[parts[1]] = true
		}
	}
	return ids
}

// holds reports whether the newest content of a file of a run may be in the journal alone.
func (j *journal) holds(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name := range j.held {
		if strings.HasPrefix(name, runFile(id)+"/") {
			return true
		}
	}
	return false
}

// add makes records durable. The caller must call placed after it has written the files to their
// places or given up.
func (j *journal) add(records []byte) (placed func(), err error) {
	e := &entry{records: records, done: make(chan error, 1)}
	j.mu.Lock()
	for len(j.full) > maxFull && j.fault == nil {
		j.changed.Wait()
	}
	if j.fault != nil {
		defer j.mu.Unlock()
		return nil, j.fault
	}
	j.waiting = append(j.waiting, e)
	if !j.writing {
		j.writing = true
		go j.write()
	}
	j.mu.Unlock()
	if err := <-e.done; err != nil {
		return nil, err
	}
	return e.seg.unended.Done, nil
}

// write writes all waiting entries together, until none waits.
func (j *journal) write() {
	var group []*entry
	defer func() {
		if p := recover(); p != nil {
			j.fail(fmt.Errorf("internal error: %v", p), group)
		}
	}()
	for {
		var records []byte
		var seg *segment
		var at int64
		var err error
		group, records, seg, at, err = j.next()
		if len(group) == 0 {
			return
		}
		if err == nil {
			err = seg.append(records, at)
		}
		if err != nil && seg != nil {
			seg.unended.Add(-len(group))
			j.abandon(seg)
		}
		for i, e := range group {
			group[i], e.seg = nil, seg
			e.done <- err
		}
	}
}

// next returns all waiting entries and their place in a segment. The group is empty if none waits.
func (j *journal) next() (group []*entry, records []byte, seg *segment, at int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	group, j.waiting = j.waiting, nil
	if len(group) == 0 {
		j.writing = false
		return nil, nil, nil, 0, nil
	}
	for _, e := range group {
		records = append(records, e.records...)
	}
	seg, at, err = j.room(len(records), len(group))
	return group, records, seg, at, err
}

// fail stops the journal. It returns the fault to the entries of group that have no result yet and
// to the waiting ones.
func (j *journal) fail(why error, group []*entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fault = refuse(http.StatusServiceUnavailable, "the receiver has failed (%v); it accepts nothing until it is started again", why)
	for _, e := range append(group, j.waiting...) {
		if e != nil {
			e.done <- j.fault
		}
	}
	j.waiting = nil
	j.changed.Broadcast() // the files of group may never be in their places: empty must not wait for them
}

// room reserves bytes for some entries in a segment.
func (j *journal) room(bytes, entries int) (seg *segment, at int64, err error) {
	if j.seg != nil && j.seg.taken+int64(bytes) > segmentBytes {
		j.retire()
	}
	if j.seg == nil {
		j.seg, err = j.begin()
		if err != nil {
			return nil, 0, err
		}
	}
	at = j.seg.taken
	j.seg.taken += int64(bytes)
	j.seg.unended.Add(entries)
	return j.seg, at, nil
}

// begin creates the next segment.
func (j *journal) begin() (*segment, error) {
	j.number++
	f, err := os.OpenFile(filepath.Join(j.dir, fmt.Sprintf("%08d.log", j.number)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.SyncDir(j.dir); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &segment{f: f}, nil
}

// append writes records and syncs them.
func (s *segment) append(records []byte, at int64) error {
	if end := at + int64(len(records)); end > s.filled {
		s.filled = (end + fillBytes) / fillBytes * fillBytes
		records = append(records, make([]byte, s.filled-end)...)
	}
	if _, err := s.f.WriteAt(records, at); err != nil {
		return err
	}
	for {
		if err := unix.Fdatasync(int(s.f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// abandon retires a segment after a failed write, so that no record follows a torn one.
func (j *journal) abandon(seg *segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.seg == seg {
		j.retire()
	}
}

// retire closes the current segment for new records.
func (j *journal) retire() {
	j.full = append(j.full, j.seg)
	j.seg = nil
	if !j.removing {
		j.removing = true
		go j.remove()
	}
}

// remove syncs the files of full segments at their places, and removes the segments.
func (j *journal) remove() {
	defer func() { _ = recover() }() // settle, which does the work, has its own
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.full) > 0 && j.fault == nil {
		full := j.full
		j.full = nil
		j.changed.Broadcast()
		j.mu.Unlock()
		err := j.settle(full)
		j.mu.Lock()
		if err != nil {
			j.fault = refuse(http.StatusServiceUnavailable, "the receiver's disk fails (%s); it accepts nothing until it is started again", storeFault(err))
		}
	}
	j.removing = false
	j.changed.Broadcast()
}

func (j *journal) settle(full []*segment) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	for _, s := range full {
		s.unended.Wait()
	}
	if err := unix.Syncfs(int(j.fs.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	for _, s := range full {
		if err := errors.Join(s.f.Close(), os.Remove(s.f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// empty makes all files durable at their places and removes all segments of earlier records,
// except those that a full disk has prevented from being replayed.
func (j *journal) empty() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held != nil {
		return nil // see holds
	}
	if j.seg != nil && j.fault == nil {
		j.retire()
	}
	for j.removing && j.fault == nil {
		j.changed.Wait()
	}
	return j.fault
}

// forget records durably that the newest content of names is not in the journal. Without that, a
// replay would restore the old content. If the record cannot be written, the journal is emptied.
func (j *journal) forget(names ...string) error {
	j.mu.Lock()
	holds, fault := j.seg != nil || j.removing, j.fault
	j.mu.Unlock()
	if !holds || fault != nil {
		return fault
	}
	var records []byte
	for _, name := range names {
		records = appendElsewhere(records, name)
	}
	placed, err := j.add(records)
	if err != nil {
		return j.empty()
	}
	placed()
	return nil
}
