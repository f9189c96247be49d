package receiver

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// store keeps everything as files:
//
//	master.key              from which credentials follow
//	runs/<id>/run.json      what was registered, and the finish
//	runs/<id>/inline.csv    the rows, where the finish brought them
//	runs/<id>/objects/<key> the uploads, named by their key below the run's prefix
//	journal/                what may not be durable there yet, see journal
//	tmp/                    what is being written
type store struct {
	dir     string
	held    *os.File // the directory, locked
	journal *journal
	seed    maphash.Seed
	locks   [1024]sync.Mutex // of a run's files, by the hash of its id

	mu    sync.Mutex
	sizes map[string]object // what is known of an object, by path
}

// run is what run.json holds.
type run struct {
	ID       string          `json:"id"`
	Created  time.Time       `json:"created"`
	Metadata json.RawMessage `json:"metadata"` // the registration as it was sent
	Finish   *finish         `json:"finish,omitempty"`
	Finished time.Time       `json:"finished,omitzero"`
}

// object is one upload.
type object struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Rows   int64  `json:"rows"` // without the header

	text, header int64 // bytes of the CSV, and of its first line
}

func openStore(dir string, warn func(error)) (*store, error) {
	s := &store{dir: dir, seed: maphash.MakeSeed(), sizes: map[string]object{}}
	for _, d := range []string{dir, filepath.Join(dir, "runs"), filepath.Join(dir, "tmp")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make the receiver's directory: %w", err)
		}
	}
	if err := s.own(); err != nil {
		return nil, err
	}
	left, err := os.ReadDir(filepath.Join(dir, "tmp"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the receiver's directory: %w", err), s.held.Close())
	}
	for _, e := range left {
		if err := os.RemoveAll(filepath.Join(dir, "tmp", e.Name())); err != nil {
			return nil, errors.Join(fmt.Errorf("remove what a crash left behind: %w", err), s.held.Close())
		}
	}
	s.journal, err = openJournal(dir, s.held, warn)
	if err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	return s, nil
}

// own takes the lock that a directory's one receiver holds; it ends with close or with
// the process.
func (s *store) own() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return fmt.Errorf("lock the receiver's directory: %w", err)
	}
	err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another receiver keeps its data in %s: stop it, or give this one a directory of its own (serve.dir)", s.dir)
	} else if err != nil {
		err = fmt.Errorf("lock the receiver's directory %s: %w", s.dir, err)
	}
	if err != nil {
		return errors.Join(err, d.Close())
	}
	s.held = d
	return nil
}

// close lets another receiver have the directory, with nothing left in the journal.
func (s *store) close() error { return errors.Join(s.journal.empty(), s.held.Close()) }

// masterKey reads the key, or makes it the first time.
func (s *store) masterKey() ([]byte, error) {
	path := filepath.Join(s.dir, "master.key")
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		rand.Read(key)
		err = write(s.dir, "master.key", key)
	}
	if err != nil {
		return nil, fmt.Errorf("the receiver's master key: %w", err)
	}
	if len(key) != 32 {
		return nil, fmt.Errorf("the receiver's master key %s has %d bytes, not 32; remove it to have a new one made", path, len(key))
	}
	return key, nil
}

var nameOfRun = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}-[a-z0-9]{26}$`)

// runFile is the name of one of a run's files.
func runFile(id string, parts ...string) string {
	return filepath.Join(append([]string{"runs", id}, parts...)...)
}

func (s *store) runDir(id string) string { return filepath.Join(s.dir, runFile(id)) }

func (s *store) exists(id string) bool {
	if !nameOfRun.MatchString(id) {
		return false
	}
	_, err := os.Stat(filepath.Join(s.runDir(id), "run.json"))
	return err == nil
}

// lock guards a run's files; call what it returns to unlock.
func (s *store) lock(id string) func() {
	m := &s.locks[maphash.String(s.seed, id)%uint64(len(s.locks))]
	m.Lock()
	return m.Unlock
}

// create makes a run. Ids sort by time.
func (s *store) create(metadata json.RawMessage, now time.Time) (run, error) {
	r := run{ID: now.UTC().Format("20060102t150405-") + strings.ToLower(rand.Text()), Created: now.UTC(), Metadata: metadata}
	return r, s.save(r)
}

// save makes a run's new state durable, together with other files of it.
func (s *store) save(r run, with ...file) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.keep(append(with, file{runFile(r.ID, "run.json"), b})...)
}

func (s *store) load(id string) (run, error) {
	var r run
	b, err := os.ReadFile(filepath.Join(s.runDir(id), "run.json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s: run.json is damaged: %w", id, err)
	}
	return r, nil
}

// ids lists at most limit runs after the given one, the oldest first, and says
// whether there are more. A directory without run.json is a registration that a
// crash cut short; nobody got an answer for it.
func (s *store) ids(after string, limit int) (ids []string, more bool, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "runs")) // sorted
	if err != nil {
		return nil, false, err
	}
	first, _ := slices.BinarySearchFunc(entries, after, func(e fs.DirEntry, after string) int {
		return cmp.Or(strings.Compare(e.Name(), after), -1) // after it, not at it
	})
	for _, e := range entries[first:] {
		switch {
		case !s.exists(e.Name()):
		case len(ids) == limit:
			return ids, true, nil
		default:
			ids = append(ids, e.Name())
		}
	}
	return ids, false, nil
}

// storeFault is the part of a store's error that a client may see: no path.
func storeFault(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "a file is cut short"
	}
	return "see the receiver's directory"
}
