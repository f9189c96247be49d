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
// To list them the kernel looks up each process, which is most of the cost of a reading of
// the node. The number of links of /proc is the same figure: two, and one for each process
// and each other directory. If a list confirms that, which it does not in a container or
// where other users' processes are hidden, the following readings only use the links, until
// the next list: a driver may have added a directory.
type Processes struct {
	dir   pidDir
	pids  []int  // of the newest list
	fresh bool   // the list belongs to the newest reading
	other uint64 // links that are no process
	until int    // readings of the links before the next list
}

// recountEvery is the number of readings after which the links are compared with a list.
// Until then the figure may be wrong by the directories that were added or removed.
const recountEvery = 12

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes { return &Processes{dir: newPIDDir(fs.Proc)} }

// Name is the name of the source in the ledger.
func (p *Processes) Name() string { return "processes" }

// Close closes the descriptor.
func (p *Processes) Close() error { return p.dir.close() }

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
	others, err := p.list()
	if err != nil {
		return err
	}
	n := uint64(len(p.pids))
	s.Node.Processes.Set(n)
	p.fresh, p.until = true, 0
	if after, ok := p.dir.links(); ok && before == after && after == n+others {
		p.other, p.until = others, recountEvery
	}
	return nil
}

// list makes the list and returns the number of other directories, including . and ...
func (p *Processes) list() (others uint64, err error) {
	p.pids = p.pids[:0]
	return p.dir.all(func(pid int) { p.pids = append(p.pids, pid) })
}

// PIDs returns the processes in ascending order: those of the reading of s if they were
// listed for it, else the current ones. The list is valid until the next call of a method.
func (p *Processes) PIDs(s *rt.Snapshot) ([]int, error) {
	if s.Node.ReadBoot == 0 && p.fresh {
		return p.pids, nil
	}
	_, err := p.list()
	return p.pids, err
}

// pidDir is a directory of numbered entries, /proc or /proc/<pid>/task, that is held open
// and listed repeatedly.
type pidDir struct{ file }

func newPIDDir(path string) pidDir { return pidDir{file{path: path}} }

// links is the number of links of the directory, if it is open.
func (d *pidDir) links() (uint64, bool) {
	if !d.open.IsOpen() {
		return 0, false
	}
	var st unix.Stat_t
	err := unix.Fstat(d.open.Fd(), &st)
	return uint64(st.Nlink), err == nil
}

// each calls fn for each entry with a number as its name.
func (d *pidDir) each(fn func(pid int)) error {
	_, err := d.all(fn)
	return err
}

// all is each, and counts the other directories.
func (d *pidDir) all(fn func(pid int)) (others uint64, err error) {
	if err := d.open.Open(d.path); err != nil {
		return 0, err
	}
	if d.buf == nil {
		d.buf = make(procfile.Buffer, 32<<10)
	}
	_, err = unix.Seek(d.open.Fd(), 0, unix.SEEK_SET)
	if err == nil {
		others, err = eachNumber(d.open.Fd(), d.buf, fn)
	}
	if err != nil {
		_ = d.close() // the listing has failed already
		return 0, &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	return others, nil
}

// eachNumber lists the open directory fd from its current position, calls fn for each
// number and counts the directories with other names.
func eachNumber(fd int, buf []byte, fn func(n int)) (others uint64, err error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return others, err
		}
		others += parseDirents(buf[:n], fn)
	}
}

// parseDirents parses records of getdents64(2): inode (8 bytes), offset (8), length
// of the record (2), type (1), name with a NUL.
func parseDirents(b []byte, fn func(n int)) (others uint64) {
	const typeAt, nameAt = 18, 19
	for len(b) > nameAt {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= nameAt || size > len(b) {
			return others
		}
		name := b[nameAt:size]
		v, k := 0, 0
		for k < len(name) && name[k] >= '0' && name[k] <= '9' && k < 10 {
			v = v*10 + int(name[k]-'0')
			k++
		}
		if k > 0 && k < len(name) && name[k] == 0 {
			fn(v)
		} else if b[typeAt] == unix.DT_DIR {
			others++
		}
		b = b[size:]
	}
	return others
}
