package list

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// index caches the figures of the ended runs of one directory, by file name. The index file has a
// checksum, a header, and the runs. An index that is damaged or of another version is replaced.
type index struct {
	path string // of the index file; empty if there is none
	head header
	runs map[string]*indexed // that were read from the index file
	kept int                 // number of runs in the index file; -1 if it must be written
}

// settles is the minimum age of the last change of a file in the index. Two changes at nearly the
// same time can leave the same stamp.
const settles = 2 * time.Second

// header identifies an index file. Another version of rt may compute other figures.
type header struct{ format, version, dir string }

// indexFormat changes with the fields of report.RunFigures. The number in it changes with their meaning.
var indexFormat = fmt.Sprintf("rt jobs 8 %x", crc32.ChecksumIEEE([]byte(fieldsOf(reflect.TypeFor[report.RunFigures]()))))

// fieldsOf names the fields below a type.
func fieldsOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "[]" + fieldsOf(t.Elem())
	case reflect.Struct:
		text := t.String() + "{"
		for i := range t.NumField() {
			text += t.Field(i).Name + " " + fieldsOf(t.Field(i).Type) + ";"
		}
		return text + "}"
	}
	return t.String()
}

// indexed is one run.
type indexed struct {
	name  string // of its file
	state stamp
	report.RunFigures
}

func (r *indexed) code(c *coder) {
	c.text(&r.name)
	c.uint(&r.state.inode)
	c.int(&r.state.size)
	c.int(&r.state.time)
	c.value(reflect.ValueOf(&r.RunFigures).Elem())
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
	c := &coder{decoding: true, in: data[sumSize:]}
	var h header
	h.code(c)
	if h != x.head {
		return errors.New("the index is of another version")
	}
	for range c.count(0) {
		r := new(indexed)
		r.code(c)
		if c.err != nil {
			return c.err
		}
		x.runs[r.name] = r
	}
	return nil
}

func (h *header) code(c *coder) {
	c.text(&h.format)
	c.text(&h.version)
	c.text(&h.dir)
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
	if f.hasLog || r == nil || r.state != f.state {
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
		return f.figures != nil && f.err == nil && !f.hasLog && f.figures.Run.State != rt.StateRunning && f.state.time < settled
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

func (x *index) write(kept []*file) (err error) {
	dir := filepath.Dir(x.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "jobs-*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(x.encode(kept))
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), x.path)
}

func (x *index) encode(kept []*file) []byte {
	c := &coder{out: make([]byte, sumSize)}
	x.head.code(c)
	c.count(len(kept))
	for _, f := range kept {
		r := indexed{filepath.Base(f.path), f.state, *f.figures}
		r.code(c)
	}
	binary.LittleEndian.PutUint32(c.out, crc32.ChecksumIEEE(c.out[sumSize:]))
	return c.out
}
