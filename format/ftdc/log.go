package ftdc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fileSuffix is the suffix of every file of the format.
const fileSuffix = ".ftdc"

// LogOptions limit the files of a Log.
type LogOptions struct {
	FileBytes int64 // a file of this length gets no further datum
	Files     int   // the oldest files beyond this number are removed, files of other programs too
}

// Log writes datums into files of a directory, <name>-<UTC time>.ftdc with mode 0640. It starts a new file if the
// newest is long enough, after a failed write, and if the clock was set, where readers stop. Every datum is one
// write, so that the files of a killed program can be read to their end.
type Log struct {
	dir, name string
	o         LogOptions
	f         *os.File // nil before a new file
	size      int64
	datums    int // in f
	enc       *Encoder
}

// NewLog returns a Log that creates dir and its first file with the first datum.
func NewLog(dir, name string, o LogOptions) *Log {
	return &Log{dir: dir, name: name, o: o}
}

// Write appends a datum.
func (l *Log) Write(d *FlatDatum) error {
	err := ErrTime // a new file
	if l.f != nil && l.size < l.o.FileBytes {
		err = l.enc.EncodeDatum(d)
	}
	if errors.Is(err, ErrTime) {
		if err := l.rotate(d.ConvertedTime()); err != nil {
			return err
		}
		err = l.enc.EncodeDatum(d)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("record into %s: %w", l.f.Name(), err), l.giveUp())
	}
	l.datums++
	if l.datums == 1 {
		return l.prune(l.f.Name())
	}
	return nil
}

// giveUp closes a file after a failed write. It removes a file without a datum: on a full disk, empty files would
// replace the others.
func (l *Log) giveUp() error {
	path, empty := l.f.Name(), l.datums == 0
	err := l.Close()
	if empty {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Close closes the newest file.
func (l *Log) Close() error {
	if l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	return f.Close()
}

// rotate starts a file.
func (l *Log) rotate(now time.Time) error {
	closed := l.Close()
	if err := os.MkdirAll(l.dir, 0o750); err != nil {
		return errors.Join(closed, fmt.Errorf("create the directory of the records: %w", err))
	}
	stem := filepath.Join(l.dir, l.name+"-"+now.Format("20060102T150405.000Z"))
	for n := 1; ; n++ {
		path := stem + fileSuffix
		if n > 1 {
			path = fmt.Sprintf("%s-%d%s", stem, n, fileSuffix)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue
		}
		if err != nil {
			return errors.Join(closed, fmt.Errorf("create a file for records: %w", err))
		}
		l.f, l.size, l.datums = f, 0, 0
		l.enc = NewEncoder(counting{l})
		return closed
	}
}

// counting counts the bytes of the newest file.
type counting struct{ l *Log }

func (c counting) Write(p []byte) (int, error) {
	n, err := c.l.f.Write(p)
	c.l.size += int64(n)
	return n, err
}

// prune removes the oldest files until there are o.Files, but never the one at path.
func (l *Log) prune(path string) error {
	type old struct {
		path string
		at   time.Time
	}
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list old records: %w", err)
	}
	var files []old
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(e.Name(), fileSuffix) {
			continue // removed meanwhile, or another file
		}
		if p := filepath.Join(l.dir, e.Name()); p != path {
			files = append(files, old{p, info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b old) int { return a.at.Compare(b.at) })
	for i := 0; i < len(files)+1-l.o.Files; i++ {
		if err := os.Remove(files[i].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old record: %w", err)
		}
	}
	return nil
}
