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
	dir pidDir
}

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes { return &Processes{dir: pidDir{path: fs.Proc}} }

// Name is what the ledger calls the source.
func (p *Processes) Name() string { return "processes" }

// Close gives the descriptor back.
func (p *Processes) Close() error { return p.dir.close() }

// Read fills s.Node.Processes.
func (p *Processes) Read(s *rt.Snapshot) error {
	var n uint64
	if err := p.dir.each(func(int) { n++ }); err != nil {
		return err
	}
	s.Node.Processes.Set(n)
	return nil
}

// PIDs lists the processes of the node, with the directory held open.
type PIDs struct {
	dir pidDir
}

// NewPIDs returns a list that is read when it is asked for.
func NewPIDs(fs FS) *PIDs { return &PIDs{dir: pidDir{path: fs.Proc}} }

// Append appends the pids to dst, in ascending order.
func (p *PIDs) Append(dst []int) ([]int, error) {
	err := p.dir.each(func(pid int) { dst = append(dst, pid) })
	return dst, err
}

// Close gives the descriptor back.
func (p *PIDs) Close() error { return p.dir.close() }

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
