package proc

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Processes counts the numeric entries of /proc.
//
// To list them the kernel looks each process up, which takes it most of what a reading
// of the node takes. The number of links of /proc says as much: two, and one for each
// process and each directory of the kernel's own. Where a list bears that out, which it
// does not in a container or where others' processes are hidden, only the links are
// read for some time: a driver may bring a directory of its own.
type Processes struct {
	dir   pidDir
	pids  []int // of the newest list
	fresh bool  // that was made for the newest reading
	own   uint64
	until int // readings that count by the links before a list is made again
}

// recountEvery is after how many readings the links are held against a list: so long
// the number may be wrong by the directories that have come or gone.
const recountEvery = 12

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes { return &Processes{dir: pidDir{path: fs.Proc}} }

// Name is what the ledger calls the source.
func (p *Processes) Name() string { return "processes" }

// Close gives the descriptor back.
func (p *Processes) Close() error { return p.dir.close() }

// Read fills s.Node.Processes.
func (p *Processes) Read(s *rt.Snapshot) error {
	p.fresh = false
	if p.until > 0 {
		p.until--
		if n, ok := p.dir.links(); ok && n > p.own {
			s.Node.Processes.Set(n - p.own)
			return nil
		}
	}
	before, _ := p.dir.links() // 0 where it is not told: then the list is taken each time
	others, err := p.list()
	if err != nil {
		return err
	}
	n := uint64(len(p.pids))
	s.Node.Processes.Set(n)
	p.fresh, p.until = true, 0
	if after, ok := p.dir.links(); ok && before == after && after == n+others {
		p.own, p.until = others, recountEvery
	}
	return nil
}

// list makes the list and says how many other directories there are, the two of
// which each has the names . and .. included.
func (p *Processes) list() (others uint64, err error) {
	p.pids = p.pids[:0]
	return p.dir.all(func(pid int) { p.pids = append(p.pids, pid) })
}

// PIDs returns the processes in ascending order: those of the reading of s where they
// were listed for it, or else those of now. The list is good until the next call of a
// method.
func (p *Processes) PIDs(s *rt.Snapshot) ([]int, error) {
	if s.Node.ReadBoot == 0 && p.fresh {
		return p.pids, nil
	}
	_, err := p.list()
	return p.pids, err
}

// pidDir is a directory of numbered entries, /proc or /proc/<pid>/task, that is
// held open and listed again.
type pidDir struct {
	path string
	fd   int
	open bool
	buf  []byte
}

// links is the number of links of the directory while it is open.
func (d *pidDir) links() (uint64, bool) {
	if !d.open {
		return 0, false
	}
	var st unix.Stat_t
	err := unix.Fstat(d.fd, &st)
	return uint64(st.Nlink), err == nil
}

// each calls fn for each entry whose name is a number.
func (d *pidDir) each(fn func(pid int)) error {
	_, err := d.all(fn)
	return err
}

// all is each and counts the other directories.
func (d *pidDir) all(fn func(pid int)) (others uint64, err error) {
	if !d.open {
		fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, &fs.PathError{Op: "open", Path: d.path, Err: err}
		}
		d.fd, d.open = fd, true
	} else if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		d.close()
		return 0, &fs.PathError{Op: "seek", Path: d.path, Err: err}
	}
	if d.buf == nil {
		d.buf = make([]byte, 32<<10)
	}
	if others, err = eachNumber(d.fd, d.buf, fn); err != nil {
		d.close()
		return 0, &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	return others, nil
}

func (d *pidDir) close() error {
	if !d.open {
		return nil
	}
	d.open = false
	if err := unix.Close(d.fd); err != nil {
		return &fs.PathError{Op: "close", Path: d.path, Err: err}
	}
	return nil
}

// eachNumber lists the open directory fd from where it stands, and counts its
// directories whose names are no numbers.
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

// parseDirents walks records of getdents64(2): inode (8 bytes), offset (8), length
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
