package proc

import (
	"bytes"
	"io/fs"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// NFS reads the client's counters of each NFS mount of the tracker's mount
// namespace: /proc/self/mountstats (the kernel's fs/nfs/super.c and
// net/sunrpc/stats.c; nfsiostat(8) reads the same).
type NFS struct {
	named
	file
	parse mountstats
	retryBackoff
}

// NewNFS returns the source of the rows "nfs" of Snapshot.RemoteFS, which it appends.
func NewNFS(fs FS) *NFS { return &NFS{named: "nfs", file: file{path: fs.Proc + "/self/mountstats"}} }

// Read appends to s.RemoteFS.
func (n *NFS) Read(s *rt.Snapshot) error {
	if err := n.pending(); err != nil {
		return err
	}
	b, err := n.read()
	if err != nil {
		return n.note(err)
	}
	before := len(s.RemoteFS)
	s.RemoteFS = n.parse.all(b, s.RemoteFS)
	if len(s.RemoteFS) == before {
		return n.note(&fs.PathError{Op: "find a mount of NFS in", Path: n.path, Err: fs.ErrNotExist})
	}
	return nil
}

// mountstats parses the mounts of type nfs and nfs4:
//
//	device server:/export mounted on /mnt with fstype nfs4 statvers=1.1
//		age:	1234
//		bytes:	normal read, normal write, direct read, direct write, server read, server write, ...
//		per-op statistics
//		    READ: operations, transmissions, timeouts, ...
//
// The rows of one text keep their names for the next, so that nothing is allocated.
type mountstats struct {
	rows []rt.RemoteFSReading // in the order of the text
	same []nfsMount           // of the rows of this text so far

	at  *rt.RemoteFSReading // the mount of the next lines; nil for another type
	now nfsMount
	ops rt.Opt[uint64]

	plain []byte // scratch
}

// nfsMount identifies mounts that show the counters of the same superblock, such as bind
// mounts, by the lines in which they are equal.
type nfsMount struct {
	age, bytes []byte
	known      bool // it equals a mount before it
}

// all appends the mounts of the text to dst, each superblock once.
func (m *mountstats) all(b []byte, dst []rt.RemoteFSReading) []rt.RemoteFSReading {
	m.at, m.same = nil, m.same[:0]
	for l := range procfile.Lines(b) {
		m.line(l)
	}
	m.end()
	for i := range m.same {
		if !m.same[i].known {
			dst = append(dst, m.rows[i])
		}
	}
	clear(m.same) // it refers to the text
	return dst
}

func (m *mountstats) line(l []byte) {
	key, rest := procfile.Field(l)
	if string(key) == "device" {
		m.end()
		m.begin(rest)
		return
	}
	if m.at == nil {
		return
	}
	switch string(key) {
	case "age:":
		m.now.age = rest
	case "bytes:":
		m.now.bytes = rest
		var v [6]uint64
		if _, ok := procfile.Uints(rest, v[:]); ok {
			m.at.ReadBytes.Set(v[4])
			m.at.WriteBytes.Set(v[5])
		}
	case "per-op":
		m.ops.Set(0)
	default:
		if sum, ok := m.ops.Get(); ok && len(key) > 1 && key[len(key)-1] == ':' {
			word, _ := procfile.Field(rest)
			v, _ := procfile.Uint(word)
			m.ops.Set(sum + v)
		}
	}
}

func (m *mountstats) begin(l []byte) {
	source, point, ok := parseMountOf(l)
	if !ok {
		return
	}
	n := len(m.same)
	if n == len(m.rows) {
		m.rows = append(m.rows, rt.RemoteFSReading{})
	}
	m.at = &m.rows[n]
	*m.at = rt.RemoteFSReading{Kind: "nfs", Source: m.keep(m.at.Source, source), MountPoint: m.keep(m.at.MountPoint, point)}
	m.now = nfsMount{}
	m.ops.Clear()
}

// end adds the mount, unless another one shows the same superblock.
func (m *mountstats) end() {
	if m.at == nil {
		return
	}
	at := m.at
	m.at, at.Ops = nil, m.ops
	for i := range m.same {
		if m.rows[i].Source == at.Source && bytes.Equal(m.same[i].age, m.now.age) && bytes.Equal(m.same[i].bytes, m.now.bytes) {
			m.now.known = true
		}
	}
	m.same = append(m.same, m.now)
}

// parseMountOf parses "server:/export mounted on /mnt with fstype nfs4 statvers=1.1".
func parseMountOf(b []byte) (source, point []byte, ok bool) {
	source, b = procfile.Field(b)
	on, b := procfile.Field(procfile.Skip(b, 1))
	point, b = procfile.Field(b)
	kind, _ := procfile.Field(procfile.Skip(b, 2))
	isNFS := string(kind) == "nfs" || string(kind) == "nfs4"
	return source, point, isNFS && string(on) == "on"
}

// keep is the function keep for a text in which the kernel writes blanks as \040.
func (m *mountstats) keep(old string, b []byte) string {
	m.plain = procfile.AppendUnescaped(m.plain[:0], b)
	return keep(old, m.plain)
}
