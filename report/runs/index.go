package runs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	osfile "github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/report"
)

// index caches the figures of the ended runs of one directory, by file name. The index file has a
// checksum and an indexFile in JSON. An index that is damaged or of another version is replaced.
type index struct {
	path string // of the index file; empty if there is none
	head header
	runs map[string]*indexed // that were read from the index file
	kept int                 // number of runs in the index file; -1 if it must be written
}

type indexFile struct {
	Head header
	Runs []*indexed
}

// settles is the minimum age of the last change of a file in the index. Two changes at nearly the
// same time can leave the same stamp.
const settles = 2 * time.Second

// header identifies an index file. Another version of rt may compute other figures.
type header struct{ Format, Version, Dir string }

// indexFormat has a number that changes with the fields of report.RunFigures and with their meaning.
const indexFormat = "rt jobs 10"

// indexed is one run.
type indexed struct {
	Name  string // of its file
	State stamp
	report.RunFigures
}

// openIndex reads the index of a directory. If there is none that can be used, it returns an empty
// index.
func openIndex(cache, dir string) *index {
	x := &index{runs: map[string]*indexed{}, kept: -1}
	abs, err := filepath.Abs(dir)
	if cache == "" || err != nil {
		return x
	}
	sum := sha256.Sum256([]byte(abs))
	x.path, x.head = filepath.Join(cache, fmt.Sprintf("jobs-%x.index", sum[:8])), header{indexFormat, rt.Version, abs}
	f, err := openOwn(x.path)
	if err != nil {
		return x
	}
	data, err := io.ReadAll(f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = x.decode(data)
	}
	if err != nil {
		x.runs = map[string]*indexed{}
		return x
	}
	x.kept = len(x.runs)
	return x
}

// sumSize is the size of the checksum in bytes.
const sumSize = 4

func (x *index) decode(data []byte) error {
	if len(data) < sumSize || binary.LittleEndian.Uint32(data) != crc32.ChecksumIEEE(data[sumSize:]) {
		return errors.New("the checksum of the index is wrong")
	}
	var file indexFile
	if err := json.Unmarshal(data[sumSize:], &file); err != nil {
		return fmt.Errorf("decode the index: %w", err)
	}
	if file.Head != x.head {
		return errors.New("the index is of another version")
	}
	for _, r := range file.Runs {
		if r == nil {
			return errors.New("the index has a run without figures")
		}
		x.runs[r.Name] = r
	}
	return nil
}

// openOwn opens a regular file of this user. The cache directory may belong to another user (HOME
// under sudo), so openOwn refuses links, FIFOs and files of other users.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	isOwn := st.Mode&unix.S_IFMT == unix.S_IFREG && st.Uid == uint32(os.Geteuid())
	if !isOwn {
		return nil, errors.Join(fmt.Errorf("read %s: it is not a regular file of this user", path), f.Close())
	}
	return f, nil
}

// get returns the figures of a file, or nil if the file must be read.
func (x *index) get(f *file) *report.RunFigures {
	r := x.runs[filepath.Base(f.path)]
	if f.hasLog || r == nil || r.State != f.state {
		return nil
	}
	return &r.RunFigures
}

// replace writes the index of files, unless the index file has exactly these runs.
func (x *index) replace(files []*file) error {
	if x.path == "" {
		return nil
	}
	settled := time.Now().Add(-settles).UnixNano()
	isKept := func(f *file) bool {
		return f.figures != nil && f.err == nil && !f.hasLog && f.figures.Run.State != rt.StateRunning && f.state.Time < settled
	}
	kept := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return !isKept(f) })
	isNew := func(f *file) bool { return !f.indexed }
	if len(kept) == x.kept && !slices.ContainsFunc(kept, isNew) {
		return nil
	}
	if err := x.write(kept); err != nil {
		return fmt.Errorf("write the index of jobs: %w", err)
	}
	x.kept = len(kept)
	for _, f := range kept {
		f.indexed = true
	}
	return nil
}

func (x *index) write(kept []*file) error {
	data, err := x.encode(kept)
	if err != nil {
		return err
	}
	dir := filepath.Dir(x.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "jobs-*.new")
	if err != nil {
		return err
	}
	return osfile.Replace(f, x.path, data, 0o600)
}

func (x *index) encode(kept []*file) ([]byte, error) {
	file := indexFile{Head: x.head}
	for _, f := range kept {
		file.Runs = append(file.Runs, &indexed{filepath.Base(f.path), f.state, *f.figures})
	}
	data, err := json.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("encode the index: %w", err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)), data...), nil
}
