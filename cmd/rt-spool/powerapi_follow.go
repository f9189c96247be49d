package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	powerapiconv "github.com/resource-tracker/rt/internal/convert/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// reportFollower makes reports of what trackers add to their spool files. They know
// nothing of it and never wait for it.
type reportFollower struct {
	dir       string
	kinds     []string
	idleWatts float64
	put       func(powerapi.Report) error

	began bool
	runs  map[string]*followedRun // by path
	node  string                  // the path of the run that tells of the node
}

// followedRun is one run and how far it was read.
type followedRun struct {
	maker *powerapiconv.Maker
	walk  rt.Walk
	last  int64 // Seq
}

// poll reads what is new. Of runs that were there before the first poll it tells
// what comes from then on. A run that has ended is read to its end and forgotten.
func (f *reportFollower) poll(ctx context.Context) error {
	locks, err := filepath.Glob(filepath.Join(f.dir, "*.lock")) // a running tracker holds one
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(locks)+len(f.runs))
	for path := range f.runs {
		paths = append(paths, path)
	}
	for _, lock := range locks {
		if path := strings.TrimSuffix(lock, ".lock") + ".db"; f.runs[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var failed error
	for _, path := range paths {
		if err := f.read(ctx, path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, spool.ErrNotFound) {
			failed = errors.Join(failed, err)
		}
	}
	f.began = true
	return failed
}

func (f *reportFollower) read(ctx context.Context, path string) error {
	r, err := spool.Open(path)
	if err != nil {
		f.forget(path)
		return err
	}
	defer r.Close()
	live, err := r.Live()
	if err != nil {
		return err
	}
	last, err := r.LastSeq() // after Live: what a run that has ended holds is all
	if err != nil {
		return err
	}
	run := f.runs[path]
	if run == nil {
		if !live {
			return nil
		}
		about := r.Run()
		run = &followedRun{maker: powerapiconv.NewMaker(&about, f.idleWatts)}
		if !f.began {
			run.last = max(last-1, 0)
		}
		if f.runs == nil {
			f.runs = map[string]*followedRun{}
		}
		f.runs[path] = run
	}
	if f.node == "" {
		f.node = path
	}
	for s, err := range r.Snapshots(ctx, run.last+1, last) {
		if err != nil {
			return err
		}
		run.last = s.Seq
		if prev := run.walk.Step(s); prev != nil {
			if err := f.tell(run.maker, path, prev, s); err != nil {
				return err
			}
		}
	}
	if !live {
		f.forget(path)
	}
	return nil
}

func (f *reportFollower) forget(path string) {
	delete(f.runs, path)
	if f.node == path {
		f.node = ""
	}
}

// tell puts the reports of an interval. Of the node one run tells, not each.
func (f *reportFollower) tell(m *powerapiconv.Maker, path string, prev, cur *rt.Snapshot) error {
	for _, kind := range f.kinds {
		node, reports := m.Reports(kind, prev, cur)
		if node != nil && f.node == path {
			reports = slices.Insert(reports, 0, node)
		}
		for _, r := range reports {
			if err := f.put(r); err != nil {
				return err
			}
		}
	}
	return nil
}
