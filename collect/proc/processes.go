package proc

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Processes counts the numeric entries of /proc.
//
// Listing /proc is most of the cost of a reading of the node, because the kernel looks up each
// process. The link count of /proc has the same information: it is two, plus one per process,
// plus one per other directory. If a listing confirms that, the next readings use only the link
// count. It does not apply in a container, or if the processes of other users are hidden. From
// time to time /proc is listed again, because a driver may have added a directory.
type Processes struct {
	named
	dir       pidDir
	pids      []int  // of the newest list
	fresh     bool   // the list belongs to the newest reading
	other     uint64 // links that are no process
	hidden    error  // from checkHidden
	isChecked bool
	until     int // readings of the links before the next listing; 0 if the links do not apply
}

// recountEvery is the number of readings after which /proc is listed again.
// Until then the figure is wrong by the number of directories that were added or removed.
const recountEvery = 12

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes {
	return &Processes{named: "processes", dir: pidDir{file{path: fs.Proc}}}
}

// Close closes the descriptor.
func (p *Processes) Close() error { return p.dir.Close() }

// Read fills s.Node.Processes.
func (p *Processes) Read(s *rt.Snapshot) error {
	p.fresh = false
	if p.until > 0 {
		p.until--
		if n, ok := p.dir.links(); ok && n > p.other {
			s.Node.Processes.Set(n - p.other)
			return nil
		}
	}
	before, _ := p.dir.links() // 0 if it cannot be read: then every reading makes a list
	pids, others, err := p.dir.list(p.pids[:0])
	p.pids = pids
	if err != nil {
		return err
	}
	n := uint64(len(p.pids))
	p.fresh, p.until = true, 0
	after, ok := p.dir.links()
	isWhole := ok && before == after && after == n+others
	if isWhole {
		p.other, p.until = others, recountEvery
	} else if err := p.checkHidden(); err != nil {
		return err
	}
	s.Node.Processes.Set(n)
	return nil
}

// checkHidden returns an error if processes are hidden from this process. It looks once.
func (p *Processes) checkHidden() error {
	if !p.isChecked {
		p.isChecked, p.hidden = true, checkHidden(p.dir.path)
	}
	return p.hidden
}

// PIDs returns the pids in ascending order. It lists /proc unless the reading of s has done
// that. The slice is valid until the next call of a method.
func (p *Processes) PIDs(s *rt.Snapshot) ([]int, error) {
	if s.Node.ReadBoot == 0 && p.fresh {
		return p.pids, nil
	}
	pids, _, err := p.dir.list(p.pids[:0])
	p.pids = pids
	return pids, err
}

// pidDir is a directory of numbered entries, such as /proc, that is held open.
type pidDir struct{ file }

// links is the number of links of the directory, if it is open.
func (d *pidDir) links() (uint64, bool) {
	if !d.open.IsOpen() {
		return 0, false
	}
	var st unix.Stat_t
	err := unix.Fstat(d.open.Fd(), &st)
	return uint64(st.Nlink), err == nil
}

// list appends the entries that are numbers to pids, and counts the other directories.
func (d *pidDir) list(pids []int) (_ []int, others uint64, err error) {
	if err := d.open.Open(d.path); err != nil {
		return pids, 0, err
	}
	if d.buf == nil {
		d.buf = make(procfile.Buffer, 32<<10)
	}
	_, err = unix.Seek(d.open.Fd(), 0, unix.SEEK_SET)
	if err == nil {
		pids, others, err = appendNumbers(d.open.Fd(), d.buf, pids)
	}
	if err != nil {
		_ = d.Close() // the listing has failed already
		return pids, 0, &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	return pids, others, nil
}

// appendNumbers is pidDir.list for the open directory fd, from its current position.
func appendNumbers(fd int, buf []byte, dst []int) (_ []int, others uint64, err error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return dst, others, err
		}
		var more uint64
		dst, more = parseDirents(buf[:n], dst)
		others += more
	}
}

// parseDirents parses getdents64(2): inode (8 bytes), offset (8), length (2), type (1), name.
func parseDirents(b []byte, dst []int) (_ []int, others uint64) {
	const typeAt, nameAt = 18, 19
	for len(b) > nameAt {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= nameAt || size > len(b) {
			return dst, others
		}
		name := b[nameAt:size]
		v, k := 0, 0
		for k < len(name) && name[k] >= '0' && name[k] <= '9' && k < 10 {
			v = v*10 + int(name[k]-'0')
			k++
		}
		if k > 0 && k < len(name) && name[k] == 0 {
			dst = append(dst, v)
		} else if b[typeAt] == unix.DT_DIR {
			others++
		}
		b = b[size:]
	}
	return dst, others
}
