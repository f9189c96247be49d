package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/resource-tracker/rt/e2e/faultvfs"
)

// A simulated disk: it fails the n-th operation, or all from the n-th on, with EIO, ENOSPC,
// EROFS or after half of the bytes. It records what was synced and can produce the files that
// remain after a power failure.

// faultKind is how an operation fails.
type faultKind int

// The faults of a disk.
const (
	ioError    faultKind = iota // EIO
	noSpace                     // ENOSPC, for operations that need space
	readOnly                    // EROFS, as after a file system error
	shortWrite                  // half of the bytes are written, then there is no space
)

func (k faultKind) String() string { return [...]string{"EIO", "ENOSPC", "EROFS", "short write"}[k] }

func (k faultKind) errno() syscall.Errno {
	return [...]syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.ENOSPC}[k]
}

// faultPlan says which operations fail. Opening, writing, truncating, syncing and removing
// are counted together, from 1.
type faultPlan struct {
	Kind faultKind
	At   int // the first that fails; 0: none
	For  int // how many fail; 0: all from there on
}

// faultDisk is a directory on the simulated disk.
type faultDisk struct {
	dir string

	mu     sync.Mutex
	plan   faultPlan
	count  int // operations since the plan was made
	failed int // how many of them failed
	what   string
	open   []string // the names of the open files
	files  map[string]*faultFile
	gone   map[string][]byte // removed, but the directory was not synced since
	syncs  int
}

// faultFile is the content of one file as far as it is known.
type faultFile struct {
	now     []byte
	durable []byte       // at its last sync
	since   []fileChange // since then
	isNew   bool         // and its directory was not synced since it was made
}

// fileChange is one write, or one truncation to at bytes.
type fileChange struct {
	at       int64
	data     []byte
	truncate bool
}

// installDisk puts all databases below dir, an absolute path, that are opened from now on, on a
// simulated disk without failures.
func installDisk(dir string) (*faultDisk, error) {
	d := &faultDisk{dir: dir, files: map[string]*faultFile{}, gone: map[string][]byte{}}
	return d, faultvfs.Install(d)
}

// Fail sets a new plan and restarts the count at 1.
func (d *faultDisk) Fail(p faultPlan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.count, d.failed, d.what = p, 0, 0, ""
}

// Count returns how many operations there were since the plan was made, how many of them
// failed, and what the first of these was.
func (d *faultDisk) Count() (operations, failed int, first string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, d.failed, d.what
}

// Syncs returns how many files were synced.
func (d *faultDisk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

func (d *faultDisk) holds(path string) bool { return strings.HasPrefix(path, d.dir+"/") }

// fails counts an operation and returns whether it fails. An operation that needs no space
// never fails with ENOSPC.
func (d *faultDisk) fails(what, path string) bool {
	d.count++
	p := d.plan
	isOver := p.For > 0 && d.count >= p.At+p.For
	if p.At == 0 || d.count < p.At || isOver {
		return false
	}
	takesRoom := what == "write" || what == "create" || what == "sync"
	needsRoom := p.Kind == noSpace || p.Kind == shortWrite
	if needsRoom && !takesRoom {
		return false
	}
	d.failed++
	if d.failed == 1 {
		d.what = fmt.Sprintf("%s %s (%v)", what, filepath.Ext(path), p.Kind)
	}
	return true
}

// opened starts to record a file. Its content at that time is considered synced.
func (d *faultDisk) opened(path string, isLog bool) error {
	if d.files[path] != nil {
		return nil
	}
	content, err := os.ReadFile(path) // SQLite has no lock on it yet that closing could drop
	if errors.Is(err, fs.ErrNotExist) {
		d.files[path] = &faultFile{isNew: isLog}
		return nil
	}
	d.files[path] = &faultFile{now: content, durable: append([]byte(nil), content...)}
	return err
}

func (f *faultFile) change(c fileChange) {
	f.since = append(f.since, c)
	f.now = c.apply(f.now)
}

func (c fileChange) apply(to []byte) []byte {
	end := c.at + int64(len(c.data))
	if c.truncate && int64(len(to)) > c.at {
		return to[:c.at]
	}
	if grow := end - int64(len(to)); grow > 0 {
		to = append(to, make([]byte, grow)...)
	}
	copy(to[c.at:], c.data)
	return to
}

// synced marks the content of a file as synced. SQLite's own file system syncs the directory
// of a new log or journal, too.
func (d *faultDisk) synced(path string) {
	f := d.files[path]
	f.durable, f.since = append([]byte(nil), f.now...), nil
	d.syncs++
	if f.isNew {
		d.dirSynced()
	}
}

func (d *faultDisk) dirSynced() {
	clear(d.gone)
	for _, f := range d.files {
		f.isNew = false
	}
}

func (d *faultDisk) removed(path string, sync bool) {
	if f := d.files[path]; f != nil && !f.isNew {
		d.gone[path] = f.durable
	}
	delete(d.files, path)
	if sync {
		d.dirSynced()
	}
}

// Forget drops the records of the files below a directory. Their databases must be closed.
func (d *faultDisk) Forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.files {
		if strings.HasPrefix(path, dir+"/") {
			delete(d.files, path)
		}
	}
	for path := range d.gone {
		if strings.HasPrefix(path, dir+"/") {
			delete(d.gone, path)
		}
	}
}

// PowerFailure writes to the directory to what the disk can contain after a power failure. It takes
// each file's synced content in the directory from, and any sectors of any later writes. A file
// that is new or was removed exists or not, unless its directory was synced. rng chooses.
func (d *faultDisk) PowerFailure(from, to string, rng *rand.Rand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := map[string][]byte{}
	keep := rng.IntN(3) // which unsynced writes stay: none, all, or some
	for path, content := range d.gone {
		if filepath.Dir(path) == from && some(rng, keep) {
			left[path] = content
		}
	}
	for path, f := range d.files {
		if _, err := os.Lstat(path); err != nil || filepath.Dir(path) != from { // the program has removed it
			continue
		}
		if f.isNew && !some(rng, keep) {
			continue
		}
		content := append([]byte(nil), f.durable...)
		for _, c := range f.since {
			content = c.torn(content, rng, keep)
		}
		left[path] = content
	}
	for path, content := range left {
		if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// sectorSize is the unit that a disk writes completely or not at all, in bytes.
const sectorSize = 512

// some says whether an unsynced change stays.
func some(rng *rand.Rand, keep int) bool { return keep == 1 || keep == 2 && rng.IntN(2) == 0 }

// torn applies those sectors of a change that reached the disk.
func (c fileChange) torn(to []byte, rng *rand.Rand, keep int) []byte {
	if c.truncate {
		if some(rng, keep) {
			return c.apply(to)
		}
		return to
	}
	for at := 0; at < len(c.data); {
		n := min(sectorSize-int((c.at+int64(at))%sectorSize), len(c.data)-at)
		if some(rng, keep) {
			to = fileChange{at: c.at + int64(at), data: c.data[at : at+n]}.apply(to)
		}
		at += n
	}
	return to
}

// SQLite's results, https://www.sqlite.org/rescode.html.
const (
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteIOWrite    = 10 | 3<<8
	sqliteIOFsync    = 10 | 4<<8
	sqliteIOTruncate = 10 | 6<<8
	sqliteIODelete   = 10 | 10<<8
)

// Flags of an open file, https://www.sqlite.org/c3ref/c_open_autoproxy.html.
const (
	openReadWrite = 0x2
	openCreate    = 0x4
	openLogs      = 0x800 | 0x80000 // a rollback journal, a write-ahead log
)

// refuse returns the answer to an operation that fails with code.
func (d *faultDisk) refuse(code int) faultvfs.Answer {
	return faultvfs.Answer{Code: code, Errno: d.plan.Kind.errno()}
}

// Open implements faultvfs.Disk. A file is identified by its index in open, counted from 1.
func (d *faultDisk) Open(path string, flags int) faultvfs.Answer {
	if !d.holds(path) {
		return faultvfs.Answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	what := "open"
	if flags&openCreate != 0 {
		what = "create"
	}
	if err := d.opened(path, flags&openLogs != 0 && flags&openCreate != 0); err != nil {
		return faultvfs.Answer{Code: sqliteCantOpen, Errno: syscall.EIO}
	}
	if flags&openReadWrite != 0 && d.fails(what, path) {
		return d.refuse(sqliteCantOpen)
	}
	d.open = append(d.open, path)
	return faultvfs.Answer{Bytes: len(d.open)}
}

// Write implements faultvfs.Disk.
func (d *faultDisk) Write(file, n int) faultvfs.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fails("write", d.open[file-1]) {
		return faultvfs.Answer{Bytes: n}
	}
	switch d.plan.Kind {
	case noSpace:
		return d.refuse(sqliteFull)
	case shortWrite:
		a := d.refuse(sqliteFull)
		a.Bytes = n / 2
		return a
	}
	return d.refuse(sqliteIOWrite)
}

// Wrote implements faultvfs.Disk.
func (d *faultDisk) Wrote(file int, data []byte, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[d.open[file-1]].change(fileChange{at: at, data: data})
}

// Truncate implements faultvfs.Disk.
func (d *faultDisk) Truncate(file int) faultvfs.Answer {
	return d.ask("truncate", file, sqliteIOTruncate)
}

// Truncated implements faultvfs.Disk.
func (d *faultDisk) Truncated(file int, size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[d.open[file-1]].change(fileChange{at: size, truncate: true})
}

// Sync implements faultvfs.Disk.
func (d *faultDisk) Sync(file int) faultvfs.Answer {
	a := d.ask("sync", file, sqliteIOFsync)
	if a.Code == 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.synced(d.open[file-1])
	}
	return a
}

// ask returns the answer to an operation without data.
func (d *faultDisk) ask(what string, file, code int) faultvfs.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails(what, d.open[file-1]) {
		return d.refuse(code)
	}
	return faultvfs.Answer{}
}

// Remove implements faultvfs.Disk.
func (d *faultDisk) Remove(path string) faultvfs.Answer {
	if !d.holds(path) {
		return faultvfs.Answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails("remove", path) {
		return d.refuse(sqliteIODelete)
	}
	return faultvfs.Answer{}
}

// Removed implements faultvfs.Disk.
func (d *faultDisk) Removed(path string, sync bool) {
	if d.holds(path) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.removed(path, sync)
	}
}
