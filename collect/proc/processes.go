package proc

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Processes counts the numeric entries of /proc.
type Processes struct {
	dir  pidDir
	pids []int // of the newest reading
}

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes { return &Processes{dir: pidDir{path: fs.Proc}} }

// Name is what the ledger calls the source.
func (p *Processes) Name() string { return "processes" }

// Close gives the descriptor back.
func (p *Processes) Close() error { return p.dir.close() }

// Read fills s.Node.Processes.
func (p *Processes) Read(s *rt.Snapshot) error {
	if err := p.list(); err != nil {
		return err
	}
	s.Node.Processes.Set(uint64(len(p.pids)))
	return nil
}

func (p *Processes) list() error {
	p.pids = p.pids[:0]
	return p.dir.each(func(pid int) { p.pids = append(p.pids, pid) })
}

// PIDs returns the processes in ascending order: those of the newest reading where s
// has its number, or else those of now. The list is good until the next call of a method.
func (p *Processes) PIDs(s *rt.Snapshot) ([]int, error) {
	if n, ok := s.Node.Processes.Get(); ok && s.Node.ReadBoot == 0 && n == uint64(len(p.pids)) {
		return p.pids, nil
	}
	err := p.list()
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

// each calls fn for each entry whose name is a number.
func (d *pidDir) each(fn func(pid int)) error {
	if !d.open {
		fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: d.path, Err: err}
		}
		d.fd, d.open = fd, true
	} else if _, err := unix.Seek(d.fd, 0, unix.SEEK_SET); err != nil {
		d.close()
		return &fs.PathError{Op: "seek", Path: d.path, Err: err}
	}
	if d.buf == nil {
		d.buf = make([]byte, 32<<10)
	}
	if err := eachNumber(d.fd, d.buf, fn); err != nil {
		d.close()
		return &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	return nil
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

// eachNumber lists the open directory fd from where it stands.
func eachNumber(fd int, buf []byte, fn func(n int)) error {
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		parseDirents(buf[:n], fn)
	}
}

// parseDirents walks records of getdents64(2): inode (8 bytes), offset (8), length
// of the record (2), type (1), name with a NUL.
func parseDirents(b []byte, fn func(n int)) {
	const nameAt = 19
	for len(b) > nameAt {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= nameAt || size > len(b) {
			return
		}
		name := b[nameAt:size]
		v, k := 0, 0
		for k < len(name) && name[k] >= '0' && name[k] <= '9' && k < 10 {
			v = v*10 + int(name[k]-'0')
			k++
		}
		if k > 0 && k < len(name) && name[k] == 0 {
			fn(v)
		}
		b = b[size:]
	}
}
