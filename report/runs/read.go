package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// Collected are the figures of the runs of some directories.
type Collected struct {
	Summaries []*report.Summary // sorted from the oldest, with the figures that report.Jobs uses
	Files     int               // number of files
	Denied    int               // number of files that this user may not read
	Problems  []error           // why other files cannot be read
	Opened    int               // number of files that were opened
	// IndexErr is why an index could not be written. The runs are complete, but the next
	// Read opens their files again.
	IndexErr error
}

// Options are for Read.
type Options struct {
	Cache    string   // directory of the indexes, which Read creates; empty if there is none
	Progress Progress // may be nil
}

// Progress is notified of the files that are opened. Done is called by several goroutines at the
// same time.
type Progress interface {
	Begin(files int)
	Done(path string, err error)
}

// Read returns the runs of directories. If ctx ends before all files are read, the index has those
// that were read until then.
func Read(ctx context.Context, dirs []string, o Options) (*Collected, error) {
	out := &Collected{}
	var copies []Copy // a run can be in two directories
	for _, dir := range dirs {
		found, err := out.readDir(ctx, dir, &o)
		if err != nil {
			return nil, err
		}
		copies = append(copies, found...)
	}
	out.Summaries = bestCopies(copies)
	out.believeArrays(nil)
	return out, nil
}

// file is one file of a directory.
type file struct {
	path  string
	state stamp
	// hasLog is set if the run is tracked, or was not closed. Its log then has figures that are not
	// in the file.
	hasLog  bool
	indexed bool // the figures are from the index
	figures *report.RunFigures
	err     error
}

// stamp identifies a state of a file without a log.
type stamp struct {
	Inode uint64
	Size  int64
	Time  int64 // of its last change, ns
}

// saveEvery is the number of files that are read between two writes of the index.
const saveEvery = 1000

func (l *Collected) readDir(ctx context.Context, dir string, o *Options) (copies []Copy, err error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	index := openIndex(o.Cache, dir)
	var unread []*file
	for _, f := range files {
		switch known := index.get(f); {
		case unix.Access(f.path, unix.R_OK) != nil: // also if the index has it
			f.err = fs.ErrPermission
		case known != nil:
			f.figures, f.indexed = known, true
		default:
			unread = append(unread, f)
		}
	}
	if o.Progress != nil && len(unread) > 0 {
		o.Progress.Begin(len(unread))
	}
	for part := range slices.Chunk(unread, saveEvery) {
		readAll(ctx, part, o.Progress)
		l.save(index, files)
		if ctx.Err() != nil {
			return nil, l.interrupted(ctx, index, files)
		}
	}
	l.save(index, files)
	l.Opened += len(unread)
	for _, f := range files {
		if l.countFile(f) {
			copies = append(copies, copyOf(f.path, f.figures.Summary()))
		}
	}
	return copies, nil
}

// interrupted returns the error of a list that ctx has ended.
func (l *Collected) interrupted(ctx context.Context, index *index, files []*file) error {
	err := fmt.Errorf("read %d runs of %s: %w", len(files), filepath.Dir(files[0].path), ctx.Err())
	if l.IndexErr != nil || index.path == "" {
		return err
	}
	return fmt.Errorf("%w; the next list does not read %d of them again", err, index.kept)
}

// save writes the index of the files that were read so far.
func (l *Collected) save(index *index, files []*file) {
	if l.IndexErr == nil {
		l.IndexErr = index.replace(files)
	}
}

// countFile counts a file, and reports whether it was read.
func (l *Collected) countFile(f *file) (isRead bool) {
	if errors.Is(f.err, fs.ErrNotExist) { // a drain has removed it
		return false
	}
	l.Files++
	switch {
	case errors.Is(f.err, fs.ErrPermission):
		l.Denied++
	case f.err != nil:
		l.Problems = append(l.Problems, f.err)
	}
	return f.err == nil
}

// listFiles returns the files of runs in a directory.
func listFiles(dir string) ([]*file, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	var out []*file
	logs := map[string]bool{}
	for _, e := range list {
		name := e.Name()
		if db, isLog := strings.CutSuffix(name, "-wal"); isLog {
			logs[db] = true
		}
		if !strings.HasSuffix(name, ".db") {
			continue
		}
		f := &file{path: filepath.Join(dir, name)}
		if st, err := e.Info(); err == nil {
			f.state = stampOf(st)
		}
		out = append(out, f)
	}
	for _, f := range out {
		f.hasLog = logs[filepath.Base(f.path)]
	}
	return out, nil
}

func stampOf(st fs.FileInfo) stamp {
	s := stamp{Size: st.Size(), Time: st.ModTime().UnixNano()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.Inode = sys.Ino
	}
	return s
}

// readAtOnce is the maximum number of files that are open at the same time.
const readAtOnce = 8

// readAll reads the figures of files.
func readAll(ctx context.Context, files []*file, progress Progress) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(readAtOnce, runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			defer recovery.Handle(func(error) {}) // read handles a panic of a file
			for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				files[i].read(ctx)
				if progress != nil {
					progress.Done(files[i].path, files[i].err)
				}
			}
		})
	}
	wg.Wait()
}

// read sets the figures of a file, or the error if it cannot be read.
func (f *file) read(ctx context.Context) {
	defer recovery.Handle(func(err error) { f.figures, f.err = nil, fmt.Errorf("read %s: %w", f.path, err) })
	r, err := spool.Open(f.path)
	if err != nil {
		f.err = err
		return
	}
	defer func() { f.err = errors.Join(f.err, r.Close()) }()
	events, err := r.Events()
	if err != nil {
		f.err = err
		return
	}
	s, err := report.Summarize(r.Run(), events, r.Usage(ctx, 1, 0))
	if err != nil {
		f.err = err
		return
	}
	if s.Run.State == rt.StateRunning {
		live, err := r.Live()
		f.err = err
		s.Abandoned = !live
	}
	f.figures = s.Figures()
}
