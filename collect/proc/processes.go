package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Processes counts the numeric entries of /proc.
type Processes struct {
	named
	dir  pidDir
	pids []int // of the newest list
}

// errHidden: the list lacks the first process. procfs is mounted with hidepid=2 or 4, see
// Documentation/filesystems/proc.rst, and this process has neither the privileges nor the group.
var errHidden = errkind.With(fs.ErrPermission, errors.New("procfs hides the processes of other users (hidepid): their number is not known"))

// NewProcesses returns the source of Node.Processes.
func NewProcesses(fs FS) *Processes {
	return &Processes{named: "processes", dir: pidDir{file{path: fs.Proc}}}
}

// Close closes the descriptor.
func (p *Processes) Close() error { return p.dir.Close() }

// Read fills s.Node.Processes.
func (p *Processes) Read(s *rt.Snapshot) error {
	pids, err := p.dir.list(p.pids[:0])
	p.pids = pids
	if err != nil {
		return err
	}
	if !slices.Contains(p.pids, 1) {
		return errHidden
	}
	s.Node.Processes.Set(uint64(len(p.pids)))
	return nil
}

// PIDs returns the pids in ascending order. It lists /proc unless the reading of s has done
// that. The slice is valid until the next call of a method.
func (p *Processes) PIDs(s *rt.Snapshot) ([]int, error) {
	if s.Node.ReadBoot == 0 && s.Node.Processes.Valid() {
		return p.pids, nil
	}
	pids, err := p.dir.list(p.pids[:0])
	p.pids = pids
	return pids, err
}

// pidDir is a directory of numbered entries, such as /proc, that is held open.
type pidDir struct{ file }

// list appends the entries that are numbers to pids.
func (d *pidDir) list(pids []int) ([]int, error) {
	if err := d.open.Open(d.path); err != nil {
		return pids, err
	}
	if d.buf == nil {
		d.buf = make(procfile.Buffer, 32<<10)
	}
	_, err := unix.Seek(d.open.Fd(), 0, unix.SEEK_SET)
	if err == nil {
		pids, err = appendNumbers(d.open.Fd(), d.buf, pids)
	}
	if err != nil {
		_ = d.Close() // the listing has failed already
		return pids, &fs.PathError{Op: "list", Path: d.path, Err: err}
	}
	return pids, nil
}

// appendNumbers is pidDir.list for the open directory fd, from its current position.
func appendNumbers(fd int, buf []byte, dst []int) ([]int, error) {
	for {
		n, err := unix.Getdents(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return dst, err
		}
		dst = parseDirents(buf[:n], dst)
	}
}

// parseDirents parses getdents64(2): inode (8 bytes), offset (8), length (2), type (1), name.
func parseDirents(b []byte, dst []int) []int {
	const nameAt = 19
	for len(b) > nameAt {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size <= nameAt || size > len(b) {
			return dst
		}
		name, _, _ := bytes.Cut(b[nameAt:size], []byte{0})
		if pid, ok := procfile.Uint(name); ok {
			dst = append(dst, int(pid))
		}
		b = b[size:]
	}
	return dst
}
