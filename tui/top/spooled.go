package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// recent is how long ago a run may have ended to be in the list.
const recent = 24 * time.Hour

// patience is how long a Read reads new files.
const patience = 300 * time.Millisecond

// Spooled is the Source of the runs of a spool directory, or of some of its files.
// A run that has ended is read once; a directory that has not changed is not listed.
type Spooled struct {
	Dir  string                   // with the runs; with Find the directory to watch
	More []string                 // further directories, which are shown and watched as well
	Find func() ([]string, error) // returns the files to show; nil for all of Dir
	// IsCopy reports whether a file is a copy from another machine, with a tracker that is not on this one;
	// nil: none is.
	IsCopy func(path string) bool
	Now    func() time.Time // nil is time.Now

	changed []time.Time // of Dir and More when they were listed
	all     bool
	paths   []string
	older   int
	runs    map[string]*followedRun
	open    *followedRun
}

// File returns a Source of one run, in any directory.
func File(path string) *Spooled {
	return &Spooled{Dir: path, Find: func() ([]string, error) { return []string{path}, nil }}
}

// Read implements Source.
func (s *Spooled) Read(ctx context.Context, wanted Wanted) (*Frame, error) {
	now := time.Now()
	if s.Now != nil {
		now = s.Now()
	}
	if err := s.list(wanted.All, now); err != nil {
		return nil, err
	}
	f := &Frame{Time: now, Where: s.Dir, Older: s.older}
	if wanted.Open != "" {
		d, err := s.detail(ctx, wanted, now)
		if err != nil {
			return nil, err
		}
		f.Open = d
		return f, nil
	}
	s.open = nil
	late := time.Now().Add(patience)
	for _, path := range s.paths {
		t := s.runs[path]
		if t.seen == (fingerprint{}) && !wanted.Wait && time.Now().After(late) {
			f.Pending++
			continue
		}
		err := t.err
		if !t.settled() || !t.looked {
			err = t.readNew(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, fs.ErrNotExist): // drain has removed it
		case errors.Is(err, fs.ErrPermission):
			f.Denied++
		case err != nil:
			f.Problems = append(f.Problems, err)
		default:
			f.Jobs = append(f.Jobs, t.job(now))
		}
	}
	believeArrays(f.Jobs)
	sortJobs(f.Jobs)
	if f.Pending > 0 {
		f.Note = fmt.Sprintf("reading: %d more runs", f.Pending)
	}
	return f, nil
}

// list finds the files if the directory has changed.
func (s *Spooled) list(all bool, now time.Time) error {
	dirs := append([]string{s.Dir}, s.More...)
	var changed []time.Time
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("look for runs: %w", err)
		}
		changed = append(changed, st.ModTime())
	}
	if s.runs != nil && slices.Equal(changed, s.changed) && all == s.all {
		return nil
	}
	var paths []string
	var err error
	if s.Find != nil {
		paths, err = s.Find()
	} else {
		paths, s.older, err = listDirs(dirs, all, now)
	}
	if err != nil {
		return err
	}
	old := s.runs
	s.paths, s.changed, s.all = paths, changed, all
	s.runs = make(map[string]*followedRun, len(paths))
	for _, p := range paths {
		s.runs[p] = cmp.Or(old[p], s.followedRun(p))
		s.runs[p].looked = false // it may have been delivered since
	}
	return nil
}

func (s *Spooled) followedRun(path string) *followedRun {
	return &followedRun{path: path, copied: s.IsCopy != nil && s.IsCopy(path)}
}

// spoolFile is a file of a run.
type spoolFile struct {
	path    string
	tracked bool
	changed time.Time
}

// listDirs returns the files of runs that are tracked, and then those that were changed
// recently, the newest first.
func listDirs(dirs []string, all bool, now time.Time) (paths []string, older int, err error) {
	var found []spoolFile
	for _, dir := range dirs {
		files, err := listDir(dir)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, files...)
	}
	n := len(found)
	found = slices.DeleteFunc(found, func(f spoolFile) bool {
		isOld := now.Sub(f.changed) > recent
		return !f.tracked && !all && isOld
	})
	slices.SortStableFunc(found, func(a, b spoolFile) int {
		return cmp.Or(cmp.Compare(b2i(b.tracked), b2i(a.tracked)), b.changed.Compare(a.changed))
	})
	for _, f := range found {
		paths = append(paths, f.path)
	}
	return paths, n - len(found), nil
}

func listDir(dir string) (found []spoolFile, err error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".db") {
			continue
		}
		e := spoolFile{path: filepath.Join(dir, f.Name())}
		if st, err := f.Info(); err == nil {
			e.changed = st.ModTime()
		}
		_, err := os.Lstat(strings.TrimSuffix(e.path, ".db") + ".lock")
		e.tracked = err == nil
		found = append(found, e)
	}
	return found, nil
}

// detail returns one run, which is read completely.
func (s *Spooled) detail(ctx context.Context, wanted Wanted, now time.Time) (*Detail, error) {
	if s.open == nil || s.open.path != wanted.Open {
		s.open = s.followedRun(wanted.Open)
		s.open.whole = true
	}
	err := s.open.readNew(ctx)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && len(s.open.points) > 0) {
		return nil, err
	}
	return s.open.detail(ctx, wanted.At, now)
}

// sortJobs sorts by start, the running ones first.
func sortJobs(jobs []Watched) {
	slices.SortStableFunc(jobs, func(a, b Watched) int {
		return cmp.Or(cmp.Compare(b2i(a.State != rt.StateRunning), b2i(b.State != rt.StateRunning)), a.Start.Compare(b.Start), strings.Compare(a.Path, b.Path))
	})
}
