// Package faultvfs simulates a failing disk for tests: a file system layer between SQLite and
// the real files of one directory. It fails the n-th operation, or all from the n-th on, with
// EIO, ENOSPC, EROFS or after half of the bytes. It records what was synced and can produce
// the files that remain after a power failure.
//
// Only tests import it. It does not see changes that a program makes without SQLite.
package faultvfs

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Kind is how an operation fails.
type Kind int

// The faults of a disk.
const (
	IOError    Kind = iota // EIO
	NoSpace                // ENOSPC, for operations that need space
	ReadOnly               // EROFS, as after a file system error
	ShortWrite             // half of the bytes are written, then there is no space
)

func (k Kind) String() string { return [...]string{"EIO", "ENOSPC", "EROFS", "short write"}[k] }

func (k Kind) errno() syscall.Errno {
	return [...]syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.ENOSPC}[k]
}

// Plan says which operations fail. Opening, writing, truncating, syncing and removing
// are counted together, from 1.
type Plan struct {
	Kind Kind
	At   int // the first that fails; 0: none
	For  int // how many fail; 0: all from there on
}

// Disk is a directory on the simulated disk.
type Disk struct {
	dir string

	mu     sync.Mutex
	plan   Plan
	count  int // operations since the plan was made
	failed int // how many of them failed
	what   string
	open   []string // the names of the open files
	files  map[string]*file
	gone   map[string][]byte // removed, but the directory was not synced since
	syncs  int
}

// file is the content of one file as far as it is known.
type file struct {
	now     []byte
	durable []byte   // at its last sync
	since   []change // since then
	isNew   bool     // and its directory was not synced since it was made
}

// change is one write, or one truncation to at bytes.
type change struct {
	at       int64
	data     []byte
	truncate bool
}

// watched is the disk that the shim uses.
var watched atomic.Pointer[Disk]

// Install puts all databases below dir, an absolute path, that are opened from now on, on a
// simulated disk without failures. There is one such disk at a time.
func Install(dir string) (*Disk, error) {
	d := &Disk{dir: dir, files: map[string]*file{}, gone: map[string][]byte{}}
	if !watched.CompareAndSwap(nil, d) {
		return nil, errors.New("another disk is installed")
	}
	if C.rt_shim_install() == 0 {
		watched.Store(nil)
		return nil, errors.New("the program does not contain SQLite")
	}
	return d, nil
}

// Remove restores SQLite's own file system. All databases must be closed.
func (d *Disk) Remove() {
	C.rt_shim_remove()
	watched.CompareAndSwap(d, nil)
}

// Fail sets a new plan and restarts the count at 1.
func (d *Disk) Fail(p Plan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plan, d.count, d.failed, d.what = p, 0, 0, ""
}

// Count returns how many operations there were since the plan was made, how many of them
// failed, and what the first of these was.
func (d *Disk) Count() (operations, failed int, first string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, d.failed, d.what
}

// Syncs returns how many files were synced.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

func (d *Disk) holds(path string) bool { return strings.HasPrefix(path, d.dir+"/") }

// fails counts an operation and returns whether it fails. An operation that needs no space
// never fails with ENOSPC.
func (d *Disk) fails(what, path string) bool {
	d.count++
	p := d.plan
	isOver := p.For > 0 && d.count >= p.At+p.For
	if p.At == 0 || d.count < p.At || isOver {
		return false
	}
	takesRoom := what == "write" || what == "create" || what == "sync"
	needsRoom := p.Kind == NoSpace || p.Kind == ShortWrite
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
func (d *Disk) opened(path string, isLog bool) error {
	if d.files[path] != nil {
		return nil
	}
	content, err := os.ReadFile(path) // SQLite has no lock on it yet that closing could drop
	if errors.Is(err, fs.ErrNotExist) {
		d.files[path] = &file{isNew: isLog}
		return nil
	}
	d.files[path] = &file{now: content, durable: append([]byte(nil), content...)}
	return err
}

func (f *file) change(c change) {
	f.since = append(f.since, c)
	f.now = c.apply(f.now)
}

func (c change) apply(to []byte) []byte {
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
func (d *Disk) synced(path string) {
	f := d.files[path]
	f.durable, f.since = append([]byte(nil), f.now...), nil
	d.syncs++
	if f.isNew {
		d.dirSynced()
	}
}

func (d *Disk) dirSynced() {
	clear(d.gone)
	for _, f := range d.files {
		f.isNew = false
	}
}

func (d *Disk) removed(path string, sync bool) {
	if f := d.files[path]; f != nil && !f.isNew {
		d.gone[path] = f.durable
	}
	delete(d.files, path)
	if sync {
		d.dirSynced()
	}
}

// Forget drops the records of the files below a directory. Their databases must be closed.
func (d *Disk) Forget(dir string) {
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

// PowerFailure writes to the directory to what the disk can contain after a power failure: of
// each file in the directory from the synced content and any sectors of any later writes. A
// file that is new or was removed exists or not, unless its directory was synced. rng chooses.
func (d *Disk) PowerFailure(from, to string, rng *rand.Rand) error {
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
func (c change) torn(to []byte, rng *rand.Rand, keep int) []byte {
	if c.truncate {
		if some(rng, keep) {
			return c.apply(to)
		}
		return to
	}
	for at := 0; at < len(c.data); {
		n := min(sectorSize-int((c.at+int64(at))%sectorSize), len(c.data)-at)
		if some(rng, keep) {
			to = change{at: c.at + int64(at), data: c.data[at : at+n]}.apply(to)
		}
		at += n
	}
	return to
}
