// Package joblist reads the figures of all runs of spool directories, for a list of jobs. Reading a
// file takes milliseconds, so an index caches the figures of runs that have ended. Only files that
// are new or have changed are read.
package joblist

import (
	"cmp"
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

// Runs are the runs of some directories.
type Runs struct {
	Summaries []*report.Summary // sorted from the oldest, with the figures that report.Jobs uses
	Files     int               // number of files
	Denied    int               // number of files that this user may not read
	Problems  []error           // why other files cannot be read
	Opened    int               // number of files that were opened
	// IndexErr is why an index could not be written. The runs are complete, but the next
	// Read opens their files again.
	IndexErr error
}

// Read returns the runs of directories. cache is the directory of the indexes; Read creates it if
// it does not exist. If cache is empty, Read uses no index.
func Read(ctx context.Context, dirs []string, cache string) (*Runs, error) {
	out := &Runs{}
	for _, dir := range dirs {
		if err := out.readDir(ctx, dir, cache); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out.Summaries, func(a, b *report.Summary) int { return a.Run.Start.Compare(b.Run.Start) })
	return out, nil
}

// file is one file of a directory.
type file struct {
	path  string
	state stamp
	// hasLog is set if the run is tracked, or was not closed. Its log then has figures that are not
	// in the file.
	hasLog  bool
	indexed bool // summary is from the index
	summary *report.Summary
	err     error
}

// stamp identifies a state of a file without a log.
type stamp struct {
	Inode uint64 `json:"i"`
	Size  int64  `json:"s"`
	Time  int64  `json:"t"` // of its last change, ns
}

func (l *Runs) readDir(ctx context.Context, dir, cache string) error {
	files, err := listFiles(dir)
	if err != nil {
		return err
	}
	index := openIndex(cache, dir)
	var unread []*file
	for _, f := range files {
		switch s := index.get(f); {
		case unix.Access(f.path, unix.R_OK) != nil: // even if the index has its figures
			f.err = fs.ErrPermission
		case s != nil:
			f.summary, f.indexed = s, true
		default:
			unread = append(unread, f)
		}
	}
	readAll(ctx, unread)
	if err := ctx.Err(); err != nil {
		return err
	}
	l.Opened += len(unread)
	for _, f := range files {
		l.add(f)
	}
	if err := index.replace(files); err != nil {
		l.IndexErr = cmp.Or(l.IndexErr, err)
	}
	return nil
}

func (l *Runs) add(f *file) {
	if errors.Is(f.err, fs.ErrNotExist) { // a drain has removed it
		return
	}
	l.Files++
	switch {
	case errors.Is(f.err, fs.ErrPermission):
		l.Denied++
	case f.err != nil:
		l.Problems = append(l.Problems, f.err)
	default:
		l.Summaries = append(l.Summaries, f.summary)
	}
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

// readAll reads the summaries of files.
func readAll(ctx context.Context, files []*file) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(readAtOnce, runtime.GOMAXPROCS(0), len(files)) {
		wg.Go(func() {
			defer recovery.Handle(func(error) {}) // read handles a panic of a file
			for i := next.Add(1) - 1; i < int64(len(files)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				files[i].read(ctx)
			}
		})
	}
	wg.Wait()
}

// read sets the summary of a file, or the error if it cannot be read.
func (f *file) read(ctx context.Context) {
	defer recovery.Handle(func(err error) { f.summary, f.err = nil, fmt.Errorf("read %s: %w", f.path, err) })
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
	s, err := report.Summarize(r.Run(), events, r.Snapshots(ctx, 1, 0))
	if err != nil {
		f.err = err
		return
	}
	if s.Run.State == rt.StateRunning {
		live, err := r.Live()
		f.err = err
		s.Abandoned = !live
	}
	f.summary = s
}
