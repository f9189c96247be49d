package receiver

import (
	"bytes"
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

// store keeps all data in files:
//
//	master.key              from which credentials are derived
//	runs/<id>/run.json      the registration and the finish
//	runs/<id>/inline.csv.gz the rows, if they were in the finish
//	runs/<id>/objects/<key> the uploads, named by their key below the run's prefix
//	journal/                what may not be durable in its place yet, see journal
//	tmp/                    files that are being written
type store struct {
	dir     string
	held    *os.File // the directory, locked
	journal *journal
	quota   *quota
	seed    maphash.Seed
	locks   [1024]sync.Mutex // of a run's files, by the hash of its id

	mu    sync.Mutex
	known map[string]object // a cache, by path
	named map[string]int    // a cache: the number of objects of a run
}

// run is the content of run.json.
type run struct {
	ID       string          `json:"id"`
	Owner    string          `json:"owner,omitempty"` // of the token that registered it, see keyring
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
	whole        bool  // the last line has an end
}

func openStore(dir string, q *quota, warn func(error)) (*store, error) {
	s := &store{dir: dir, quota: q, seed: maphash.MakeSeed(), known: map[string]object{}, named: map[string]int{}}
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
			return nil, errors.Join(fmt.Errorf("remove what a crash has left: %w", err), s.held.Close())
		}
	}
	s.journal, err = openJournal(dir, s.held, warn)
	if err == nil {
		err = s.count()
	}
	if err != nil {
		return nil, errors.Join(err, s.held.Close())
	}
	return s, nil
}

// own locks the directory for its one receiver, until close or the end of the process.
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

// close empties the journal and unlocks the directory.
func (s *store) close() error { return errors.Join(s.journal.empty(), s.held.Close()) }

// masterKey reads the key, or creates it the first time.
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
		return nil, fmt.Errorf("the receiver's master key %s has %d bytes, not 32; remove it to create a new one", path, len(key))
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

// lock locks a run's files and returns the function that unlocks them.
func (s *store) lock(id string) func() {
	m := &s.locks[maphash.String(s.seed, id)%uint64(len(s.locks))]
	m.Lock()
	return m.Unlock
}

// create registers a run. Ids sort by time.
func (s *store) create(owner string, metadata json.RawMessage, now time.Time) (run, error) {
	r := run{ID: now.UTC().Format("20060102t150405-") + strings.ToLower(rand.Text()), Owner: owner, Created: now.UTC(), Metadata: metadata}
	return r, s.save(r)
}

// save makes a run's new state durable, together with other files of the run.
func (s *store) save(r run, with ...file) error {
	b, err := marshal(r)
	if err != nil {
		return err
	}
	return s.keepOf(r, append(with, file{runFile(r.ID, "run.json"), b})...)
}

// marshal is json.Marshal without the escapes for HTML, by which a hostile text would grow to six
// times its size.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// keepOf is keep for files of a run, which count against the quota.
func (s *store) keepOf(r run, files ...file) error {
	var names []string
	for _, f := range files {
		names = append(names, f.name)
	}
	return s.counted(r.Owner, r.ID, func() error { return s.keep(files...) }, names...)
}

// keepBody makes the body of a request a file of a run.
func (s *store) keepBody(r run, b *body, name string) error {
	if b.size <= smallFile {
		content, err := b.content()
		if err != nil {
			return err
		}
		return s.keepOf(r, file{name, content})
	}
	return s.counted(r.Owner, r.ID, func() error { return s.adopt(b.file, name) }, name)
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

// ids lists at most limit runs after the given one, the oldest first, and reports whether
// there are more. A directory without run.json is a registration that a crash has
// interrupted; it got no answer.
func (s *store) ids(after string, limit int) (ids []string, more bool, err error) {
	for {
		names, rest, err := s.namesAfter(after, limit+1)
		if err != nil {
			return nil, false, err
		}
		for _, name := range names {
			switch {
			case !s.exists(name):
			case len(ids) == limit:
				return ids, true, nil
			default:
				ids = append(ids, name)
			}
		}
		if !rest {
			return ids, false, nil
		}
		after = names[len(names)-1]
	}
}

// namesAfter returns the first names of runs after the given one, sorted, and reports whether
// there are more. Its memory does not grow with the number of runs.
func (s *store) namesAfter(after string, limit int) (names []string, more bool, err error) {
	d, err := os.Open(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	for {
		part, err := d.Readdirnames(4096)
		for _, name := range part {
			if name > after {
				names = append(names, name)
			}
		}
		if len(names) > limit {
			slices.Sort(names)
			names, more = names[:limit], true
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// storeFault is the part of a store's error that a client may see: no path.
func storeFault(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "a file is truncated"
	}
	return "see the receiver's directory"
}
