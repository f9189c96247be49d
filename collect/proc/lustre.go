package proc

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Lustre reads the client's counters of each mounted Lustre file system:
// llite/<name>-<instance>/stats. They are below debugfs since Lustre 2.12 and below
// /proc/fs/lustre before (Lustre Operations Manual, "Monitoring Client Activity").
type Lustre struct {
	named
	fs     FS
	mounts []lustreMount
	peek   peek
	retryBackoff
}

type lustreMount struct {
	dir string
	now rt.RemoteFSReading
}

// NewLustre returns the source of the rows "lustre" of Snapshot.RemoteFS, which it
// appends.
func NewLustre(fs FS) *Lustre { return &Lustre{named: "lustre", fs: fs} }

// Close does nothing: no file is held open.
func (l *Lustre) Close() error { return nil }

// Read appends to s.RemoteFS. A file system that was unmounted is left out.
func (l *Lustre) Read(s *rt.Snapshot) error {
	if err := l.list(l.discover); err != nil {
		return err
	}
	var failed error
	for i := range l.mounts {
		m := &l.mounts[i]
		b, err := l.peek.path(m.dir).str("/stats").read()
		if err != nil {
			l.until = 0
			failed = &fs.PathError{Op: "read", Path: m.dir + "/stats", Err: err}
			continue
		}
		parseLlite(b, &m.now)
		s.RemoteFS = append(s.RemoteFS, m.now)
	}
	return failed
}

func (l *Lustre) discover() error {
	var dirs []string
	var first error
	for _, top := range [...]string{l.fs.Sys + "/kernel/debug/lustre/llite", l.fs.Proc + "/fs/lustre/llite"} {
		entries, err := os.ReadDir(top)
		isWorse := first == nil || errors.Is(first, fs.ErrNotExist)
		if err != nil && isWorse {
			first = err
		}
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, top+"/"+e.Name())
			}
		}
	}
	if len(dirs) == 0 {
		if first == nil {
			first = &fs.PathError{Op: "list", Path: l.fs.Proc + "/fs/lustre/llite", Err: fs.ErrNotExist}
		}
		l.mounts = nil
		return first
	}
	if slices.EqualFunc(dirs, l.mounts, func(dir string, m lustreMount) bool { return m.dir == dir }) {
		return nil
	}
	l.mounts = nil
	table, _ := os.ReadFile(l.fs.Proc + "/self/mounts") // without it the mount points are unknown
	for _, dir := range dirs {
		name := dir[strings.LastIndexByte(dir, '/')+1:]
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		l.mounts = append(l.mounts, lustreMount{dir: dir,
			now: rt.RemoteFSReading{Kind: "lustre", Source: keep("", []byte(name)), MountPoint: lustreMountPoint(table, name)}})
	}
	return nil
}

// lustreMountPoint finds the mount point of the file system in /proc/self/mounts: a
// source is "10.0.0.1@o2ib:10.0.0.2@o2ib:/name". It is empty if the file system is mounted
// twice, because no file shows the mount point of an instance.
func lustreMountPoint(table []byte, name string) string {
	found := ""
	for l := range bytes.Lines(table) {
		words := bytes.Fields(l)
		if len(words) < 3 || string(words[2]) != "lustre" {
			continue
		}
		_, source, _ := bytes.Cut(words[0], []byte(":/"))
		source, _, _ = bytes.Cut(source, []byte("/")) // a directory of it
		if string(source) != name {
			continue
		}
		if found != "" {
			return ""
		}
		found = procfile.Unescape(words[1])
	}
	return found
}

// parseLlite parses lines such as
//
//	read_bytes  34 samples [bytes] 4096 1048576 17825792
//	open        12 samples [usec] 30 200 1100 90000
//
// name, number of calls, unit, least, most, sum. A kind of call that was never made has no
// line, so that a missing line is zero.
func parseLlite(b []byte, r *rt.RemoteFSReading) {
	var read, written, ops uint64
	for l := range procfile.Lines(b) {
		name, rest := procfile.Field(l)
		word, rest := procfile.Field(rest)
		calls, ok := procfile.Uint(word)
		samples, rest := procfile.Field(rest)
		if !ok || string(samples) != "samples" {
			continue // snapshot_time, start_time, elapsed_time
		}
		unit, rest := procfile.Field(rest)
		if string(unit) != "[bytes]" {
			ops += calls
			continue
		}
		var v [3]uint64
		if _, ok := procfile.Uints(rest, v[:]); !ok {
			continue
		}
		switch string(name) {
		case "read_bytes":
			read = v[2]
		case "write_bytes":
			written = v[2]
		}
	}
	r.ReadBytes.Set(read)
	r.WriteBytes.Set(written)
	r.Ops.Set(ops)
}
