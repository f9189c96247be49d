package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// file is held open. The first read opens it, and so does the next read after an error.
type file struct {
	path string
	open procfile.File
	buf  procfile.Buffer
}

// read returns the whole file. The bytes are valid until the next call.
func (f *file) read() ([]byte, error) {
	if err := f.open.Open(f.path); err != nil {
		return nil, err
	}
	b, err := f.buf.ReadAll(&f.open)
	if err != nil {
		_ = f.open.Close() // the reading has failed already
		return nil, &fs.PathError{Op: "read", Path: f.path, Err: err}
	}
	return b, nil
}

// Close closes the descriptor.
func (f *file) Close() error {
	if err := f.open.Close(); err != nil {
		return &fs.PathError{Op: "close", Path: f.path, Err: err}
	}
	return nil
}

// pageSize is the unit of the memory in /proc/<pid>/stat, in bytes.
var pageSize = uint64(unix.Getpagesize())

// peek reads short files that are not held open: attributes of devices, the stat of a
// process. It keeps its buffers and allocates nothing. The caller builds a path, then
// reads the file: p.path(root).num(pid).str("/stat").read().
type peek struct {
	name []byte
	buf  procfile.Buffer
}

// path begins a path.
func (p *peek) path(root string) *peek {
	p.name = append(p.name[:0], root...)
	return p
}

// str appends s as it is.
func (p *peek) str(s string) *peek {
	p.name = append(p.name, s...)
	return p
}

// num appends a slash and n.
func (p *peek) num(n int) *peek { return p.str("/").digits(n) }

// digits appends n.
func (p *peek) digits(n int) *peek {
	p.name = strconv.AppendInt(p.name, int64(n), 10)
	return p
}

// open opens the file. flags are added to O_RDONLY.
func (p *peek) open(flags int) (f procfile.File, err error) {
	p.name = append(p.name, 0)
	err = f.OpenBytes(p.name, flags)
	return f, err
}

// read returns the file's text without blanks at its ends, valid until the next call.
func (p *peek) read() ([]byte, error) {
	f, err := p.open(0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading: nothing can be lost
	b, err := p.buf.ReadAll(&f)
	return procfile.Trim(b), err
}

// text returns the file's text: old if it is the same, empty if it cannot be read.
func (p *peek) text(old string) string {
	b, err := p.read()
	if err != nil {
		return ""
	}
	return keep(old, b)
}

// uint returns the number in the file.
func (p *peek) uint() (uint64, bool) {
	b, err := p.read()
	if err != nil {
		return 0, false
	}
	return procfile.Uint(b)
}

// stat reads /proc/<pid>/stat. Its Comm is valid until the next call.
func (p *peek) stat(root string, pid int) (procfile.Stat, error) {
	b, err := p.path(root).num(pid).str("/stat").read()
	if err != nil {
		return procfile.Stat{}, err
	}
	return parsePidStat(b)
}

// keep returns the bytes as a string: old if it is the same, so that nothing is allocated.
func keep(old string, b []byte) string {
	if old == string(b) {
		return old
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

var errPidStat = errors.New("not in the form of proc_pid_stat(5)")

// parsePidStat parses /proc/<pid>/stat.
func parsePidStat(b []byte) (procfile.Stat, error) {
	stat, ok := procfile.ParseStat(b)
	if !ok {
		return stat, errPidStat
	}
	return stat, nil
}

// parsePidIO parses the storage bytes of /proc/<pid>/io (proc_pid_io(5)). They include the
// bytes of the children that the process has waited for.
func parsePidIO(b []byte) (c counters, ok bool) {
	for seen := 0; seen < len(c); {
		if len(b) == 0 {
			return counters{}, false
		}
		var key []byte
		var v uint64
		key, v, ok, b = procfile.Pair(b)
		switch string(key) {
		case "read_bytes:":
			c[0] = v
		case "write_bytes:":
			c[1] = v
		default:
			continue
		}
		if !ok {
			return counters{}, false
		}
		seen++
	}
	return c, true
}

// parseSwitches parses the two counts of context switches at the end of /proc/<pid>/status
// (proc_pid_status(5)). They count the process's first thread only.
func parseSwitches(b []byte) (c counters, ok bool) {
	i := bytes.LastIndex(b, voluntaryLine)
	if i < 0 {
		return c, false
	}
	_, voluntary, ok1, rest := procfile.Pair(b[i+1:])
	key, involuntary, ok2, _ := procfile.Pair(rest)
	return counters{voluntary, involuntary}, ok1 && ok2 && string(key) == "nonvoluntary_ctxt_switches:"
}

var voluntaryLine = []byte("\nvoluntary_ctxt_switches:")

// parsePSS parses the line "Pss:" of /proc/<pid>/smaps_rollup, in bytes.
func parsePSS(b []byte) (uint64, bool) {
	for len(b) > 0 {
		key, kib, ok, rest := procfile.Pair(b)
		if string(key) == "Pss:" {
			return kib * 1024, ok && kib < 1<<54
		}
		b = rest
	}
	return 0, false
}
