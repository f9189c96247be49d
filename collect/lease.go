package collect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Lease shares what is read of the node among its trackers, so that many jobs on
// one node cost one reading of it. The values lie in one small file. Whoever finds
// them too old for himself and holds the file's lock (flock(2)) reads the node and
// writes them anew; nobody ever waits: where the lock is held by another, or the
// file is stale, torn or foreign, a tracker reads the node for itself.
//
//	8 bytes  leaseMagic
//	4        CRC-32C of all that follows
//	4        length of what follows
//	         key, Boot of the reading, and the node's part of a snapshot: see coder
type Lease struct {
	path, key string
	file      *os.File
	buf       []byte
	snap      coder
}

const (
	leaseMagic  = "rtnode01"
	leaseHeader = len(leaseMagic) + 8
	leaseMost   = 4 << 20 // bytes that are believed to be a node's values
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenLease opens the file of the node's values in dir, which only the trackers'
// user can write to, and makes it where it is not there. key names what the values
// are of: they are shared among trackers of one boot and one view of the machine.
func OpenLease(dir, key string) (*Lease, error) {
	path := filepath.Join(dir, "values")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("share the node's values: %w; each tracker reads the node by itself", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = trusted(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lease{path: path, key: key, file: f}, nil
}

// trusted refuses what somebody else may have written.
func trusted(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return fmt.Errorf("share the node's values: %s is not a regular file; remove it", path)
	case st.Uid != uint32(os.Geteuid()) || info.Mode()&0o022 != 0:
		return fmt.Errorf("share the node's values: %s could be written by somebody else (owner %d, mode %v); remove it", path, st.Uid, info.Mode())
	}
	return nil
}

// Close gives the file back.
func (l *Lease) Close() error { return l.file.Close() }

// take fills the node's part of s with values that were read at or after notBefore,
// and is false where there are none; s is then as it was.
func (l *Lease) take(s *rt.Snapshot, notBefore int64) bool {
	b, ok := l.load()
	if !ok {
		return false
	}
	l.snap = coder{b: b}
	c := &l.snap
	if !c.is(l.key) {
		return false
	}
	var boot uint64
	c.u64(&boot)
	if c.bad || int64(boot) < notBefore || int64(boot) > s.Boot {
		return false
	}
	c.node(s)
	if c.bad || len(c.b) > 0 {
		forget(s)
		return false
	}
	s.Node.ReadBoot = int64(boot)
	return true
}

// is reads a text and compares it, without making a string of it.
func (c *coder) is(want string) bool {
	var n uint64
	c.u64(&n)
	if c.bad || n != uint64(len(want)) || n > uint64(len(c.b)) || string(c.b[:n]) != want {
		return false
	}
	c.b = c.b[n:]
	return true
}

// load reads the file and checks it.
func (l *Lease) load() ([]byte, bool) {
	if l.buf == nil {
		l.buf = make([]byte, 16<<10)
	}
	for {
		n, err := unix.Pread(int(l.file.Fd()), l.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < leaseHeader || string(l.buf[:len(leaseMagic)]) != leaseMagic {
			return nil, false
		}
		size := int(binary.LittleEndian.Uint32(l.buf[leaseHeader-4:]))
		switch {
		case size > leaseMost:
			return nil, false
		case leaseHeader+size > len(l.buf):
			l.buf = make([]byte, leaseHeader+size+size/2)
			continue
		case leaseHeader+size > n:
			return nil, false
		}
		body := l.buf[leaseHeader : leaseHeader+size]
		return body, crc32.Checksum(body, castagnoli) == binary.LittleEndian.Uint32(l.buf[len(leaseMagic):])
	}
}

// elect is true for the one tracker that may write the values now.
func (l *Lease) elect() bool {
	return unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// resign ends the election.
func (l *Lease) resign() { _ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN) } // it ends with the file, too

// give writes the node's part of s and ends the election.
func (l *Lease) give(s *rt.Snapshot) error {
	var none [leaseHeader]byte
	l.snap = coder{b: append(l.buf[:0], none[:]...), write: true}
	c := &l.snap
	c.text(&l.key)
	boot := uint64(s.Boot)
	c.u64(&boot)
	c.node(s)
	l.buf = c.b[:cap(c.b)]
	body := c.b[leaseHeader:]
	copy(c.b, leaseMagic)
	binary.LittleEndian.PutUint32(c.b[len(leaseMagic):], crc32.Checksum(body, castagnoli))
	binary.LittleEndian.PutUint32(c.b[leaseHeader-4:], uint32(len(body)))
	_, err := unix.Pwrite(int(l.file.Fd()), c.b, 0)
	l.resign()
	if err != nil {
		return fmt.Errorf("share the node's values: write %s: %w", l.path, err)
	}
	return nil
}
