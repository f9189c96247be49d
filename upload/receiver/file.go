package receiver

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/resource-tracker/rt/internal/durable"
)

// file is a file of the store, by its name below the directory, and its whole content.
type file struct {
	name    string
	content []byte
}

// smallFile is the largest size of a file in the journal, in bytes: writing a larger one
// twice costs more than a sync.
const smallFile = 64 << 10

func (f file) large() bool { return len(f.content) > smallFile }

// keep makes files durable, and then visible in their order. Small files share the sync of
// other requests.
func (s *store) keep(files ...file) error {
	if s.journal.unused || slices.ContainsFunc(files, file.large) {
		return s.keepAlone(files)
	}
	var records []byte
	for _, f := range files {
		records = appendRecord(records, f.name, f.content)
	}
	placed, err := s.journal.add(records)
	if err != nil {
		return err
	}
	defer placed()
	for _, f := range files {
		if err := place(s.dir, f.name, f.content); err != nil {
			return err
		}
	}
	return nil
}

// keepAlone makes files durable and visible without the journal, one after the other: a run's
// rows are there before the run.json that refers to them, whatever fails between.
func (s *store) keepAlone(files []file) error {
	var names []string
	for _, f := range files {
		if err := write(s.dir, f.name, f.content); err != nil {
			return err
		}
		names = append(names, f.name)
	}
	return s.journal.forget(names...)
}

// adopt gives a temporary file its name, and removes that name from the journal.
func (s *store) adopt(t temp, name string) error {
	if err := t.commit(filepath.Join(s.dir, name)); err != nil {
		return err
	}
	return s.journal.forget(name)
}

// write makes a file durable and visible, at once, under its name below root.
func write(root, name string, content []byte) error {
	return writeFile(root, name, content, temp.commit)
}

// place makes a file visible, at once, under its name below root, without a sync.
func place(root, name string, content []byte) error {
	return writeFile(root, name, content, temp.rename)
}

func writeFile(root, name string, content []byte, as func(t temp, path string) error) error {
	t, err := newTemp(root)
	if err != nil {
		return err
	}
	defer t.discard()
	if _, err := t.Write(content); err != nil {
		return err
	}
	return as(t, filepath.Join(root, name))
}

// temp is a file that becomes visible under its name at commit, or never.
type temp struct{ *os.File }

func newTemp(dir string) (temp, error) {
	f, err := os.CreateTemp(filepath.Join(dir, "tmp"), "new-")
	return temp{f}, err
}

// commit gives the file its name durably: fsync, rename, fsync of the directory and,
// as it may be new, of the one above.
func (t temp) commit(path string) error {
	if err := errors.Join(t.Sync(), t.Close()); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); err != nil {
		return err
	}
	return errors.Join(durable.SyncDir(dir), durable.SyncDir(filepath.Dir(dir)))
}

// rename gives the file its name, without a sync.
func (t temp) rename(path string) error {
	if err := t.Close(); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}

// discard removes a file that was not committed; if it cannot, the next start does.
func (t temp) discard() {
	_ = t.Close()
	_ = os.Remove(t.Name())
}

// body is an upload between its arrival and its place in the store.
type body struct {
	io.Reader                         // reads what was received
	keep      func(name string) error // makes it a durable and visible file of the store
	discard   func()                  // removes what was not kept
}

// receive reads an upload to its end: a small one into memory, a larger one into a file.
func (s *store) receive(from io.Reader, length int64) (body, error) {
	if length <= smallFile {
		content, err := io.ReadAll(from)
		return body{bytes.NewReader(content), func(name string) error { return s.keep(file{name, content}) }, func() {}}, err
	}
	t, err := newTemp(s.dir)
	if err != nil {
		return body{}, err
	}
	_, err = io.Copy(t, from)
	if err == nil {
		_, err = t.Seek(0, io.SeekStart)
	}
	if err != nil {
		t.discard()
		return body{}, err
	}
	return body{t, func(name string) error { return s.adopt(t, name) }, t.discard}, nil
}
