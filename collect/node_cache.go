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

// NodeCache shares the node's values among the trackers of a node, so that many jobs cost
// one reading of the node. The values are in one small file. If they are too old, the
// tracker that gets the file's lock (flock(2)) reads the node and writes the file. No
// tracker waits for another one. If the lock is taken, or the file is stale, damaged or has
// another key, a tracker reads the node for itself.
//
//	8 bytes  cacheMagic
//	4        CRC-32 (IEEE) of the rest
//	4        length of the rest
//	         key, boot time of the reading, and the node's part of a snapshot: see coder
type NodeCache struct {
	path, key string
	file      *os.File
	buf       []byte
	coder     coder
}

const (
	cacheMagic  = "rtnode04"
	cacheHeader = len(cacheMagic) + 8
	maxCache    = 4 << 20 // bytes; a longer file is not read
)

// OpenNodeCache opens the file of the node's values in dir, and creates it if necessary.
// Only the trackers' user may have write access to dir. Trackers share values only if they
// use the same key, which stands for one boot and one view of the machine.
func OpenNodeCache(dir, key string) (*NodeCache, error) {
	path := filepath.Join(dir, "values")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("share the node's values: %w; each tracker reads the node for itself", err)
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &NodeCache{path: path, key: key, file: f}, nil
}

// checkOwner refuses a file that another user can write to.
func checkOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || !info.Mode().IsRegular():
		return fmt.Errorf("share the node's values: %s is not a regular file; remove it", path)
	case st.Uid != uint32(os.Geteuid()) || info.Mode()&0o022 != 0:
		return fmt.Errorf("share the node's values: another user can write to %s (owner %d, mode %v); remove it", path, st.Uid, info.Mode())
	}
	return nil
}

// Close closes the file.
func (n *NodeCache) Close() error { return n.file.Close() }

// load fills the node's part of s with values that were read at or after notBefore
// (boot time). If there are none, it returns false and does not change s.
func (n *NodeCache) load(s *rt.Snapshot, notBefore int64) bool {
	b, ok := n.readFile()
	if !ok {
		return false
	}
	n.coder = coder{b: b}
	c := &n.coder
	key := n.key
	c.text(&key)
	if key != n.key {
		return false
	}
	var boot uint64
	c.u64(&boot)
	if c.bad || int64(boot) < notBefore || int64(boot) > s.Boot {
		return false
	}
	c.node(s)
	if c.bad || len(c.b) > 0 {
		clearNode(s)
		return false
	}
	s.Node.ReadBoot = int64(boot)
	return true
}

// readFile returns the content after the header, if the checksum is right.
func (n *NodeCache) readFile() ([]byte, bool) {
	if n.buf == nil {
		n.buf = make([]byte, 16<<10)
	}
	for {
		got, err := unix.Pread(int(n.file.Fd()), n.buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got < cacheHeader || string(n.buf[:len(cacheMagic)]) != cacheMagic {
			return nil, false
		}
		size := int(binary.LittleEndian.Uint32(n.buf[cacheHeader-4:]))
		switch {
		case size > maxCache:
			return nil, false
		case cacheHeader+size > len(n.buf):
			n.buf = make([]byte, cacheHeader+size+size/2)
			continue
		case cacheHeader+size > got:
			return nil, false
		}
		body := n.buf[cacheHeader : cacheHeader+size]
		return body, crc32.ChecksumIEEE(body) == binary.LittleEndian.Uint32(n.buf[len(cacheMagic):])
	}
}

// tryLock takes the file's lock without waiting. Only the tracker that gets it may write.
func (n *NodeCache) tryLock() bool {
	return unix.Flock(int(n.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// unlock releases the lock. Closing the file also releases it.
func (n *NodeCache) unlock() { _ = unix.Flock(int(n.file.Fd()), unix.LOCK_UN) }

// write stores the node's part of s and releases the lock.
func (n *NodeCache) write(s *rt.Snapshot) error {
	var none [cacheHeader]byte
	n.coder = coder{b: append(n.buf[:0], none[:]...), write: true}
	c := &n.coder
	c.text(&n.key)
	boot := uint64(s.Boot)
	c.u64(&boot)
	c.node(s)
	n.buf = c.b[:cap(c.b)]
	body := c.b[cacheHeader:]
	copy(c.b, cacheMagic)
	binary.LittleEndian.PutUint32(c.b[len(cacheMagic):], crc32.ChecksumIEEE(body))
	binary.LittleEndian.PutUint32(c.b[cacheHeader-4:], uint32(len(body)))
	_, err := unix.Pwrite(int(n.file.Fd()), c.b, 0)
	n.unlock()
	if err != nil {
		return fmt.Errorf("share the node's values: write %s: %w", n.path, err)
	}
	return nil
}

// readNode takes the values of the node from the cache if they are recent enough: at most half as
// old as the last snapshot. Otherwise it reads the sources of the node. The first reading never
// uses the cache, because it finds out which sources the node has.
func (r *Recorder) readNode(s *rt.Snapshot) {
	cache := r.o.NodeCache
	if cache == nil {
		r.readSources(s)
		return
	}
	notBefore := s.Boot - (s.Boot-r.written)/2
	isCached := r.seq > 0 && cache.load(s, notBefore)
	isWriter := !isCached && cache.tryLock()
	if isWriter && r.seq > 0 && cache.load(s, notBefore) { // stored between the two calls
		cache.unlock()
		isCached, isWriter = true, false
	}
	if !isCached {
		r.readSources(s)
	}
	r.sums.fill(s)
	if isWriter {
		r.report(&r.cache, "sensor", "node cache", cache.write(s))
	}
}

func (r *Recorder) readSources(s *rt.Snapshot) {
	for i, src := range r.o.Node {
		r.report(&r.node[i], "sensor", src.Name(), read(src, s))
	}
}
