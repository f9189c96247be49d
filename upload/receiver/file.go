package receiver

import (
	"errors"
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
	if err := s.writable(); err != nil {
		return err
	}
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

// writable returns why the store accepts no data, or nil.
func (s *store) writable() error {
	replayed, fault := s.journal.retry(s.countRun)
	if replayed { // some files are new
		s.mu.Lock()
		clear(s.known)
		clear(s.named)
		s.mu.Unlock()
	}
	return fault
}

// adopt gives a temporary file its name, and removes that name from the journal.
func (s *store) adopt(t temp, name string) error {
	if err := s.writable(); err != nil {
		return err
	}
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
