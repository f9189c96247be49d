package powerapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
)

// FollowOptions select the runs and the reports.
type FollowOptions struct {
	Dir       string   // of the spool
	Kinds     []string // of reports: hwpc, power, procfs
	IdleWatts float64  // as for NewMaker
	Every     time.Duration
	Log       *log.Logger
}

// FollowToFile appends reports to a file, as PowerAPI's file input reads them, until ctx is done.
func FollowToFile(ctx context.Context, o FollowOptions, name string) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write reports: %w", err)
	}
	f := follower{FollowOptions: o}
	f.follow(ctx, func(r Report) error {
		line, err := r.AppendJSON(nil, ISO)
		if err == nil {
			_, err = out.Write(line)
		}
		return err
	})
	return errors.Join(out.Sync(), out.Close())
}

// FollowToSocket sends reports to a formula, as PowerAPI's socket input reads them,
// until ctx is done. At most limit reports wait for the formula.
func FollowToSocket(ctx context.Context, o FollowOptions, address string, limit int) error {
	s := &sender{queue: newQueue(limit), address: address, pause: firstPause, log: o.Log, dial: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	var sending sync.WaitGroup
	sending.Go(func() {
		defer recovery.Handle(func(err error) { o.Log.Print(err) })
		s.run(ctx)
	})
	f := follower{FollowOptions: o}
	f.follow(ctx, func(r Report) error {
		line, err := r.AppendJSON(nil, Millis)
		if err == nil {
			s.queue.putLine(line)
		}
		return err
	})
	sending.Wait()
	waiting, dropped := s.queue.counts()
	o.Log.Printf("%d reports were sent, %d were dropped, %d waited at the end", s.sent, dropped, waiting)
	return nil
}

// follower makes reports of what trackers add to their spool files. Trackers never wait for it.
type follower struct {
	FollowOptions
	putReport func(Report) error

	began bool
	runs  map[string]*followedRun // by path
	node  string                  // path of the run that also reports the node
}

// follow polls until ctx is done, and logs an error when it differs from the one before.
func (f *follower) follow(ctx context.Context, put func(Report) error) {
	f.putReport = put
	logged := ""
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		err := f.poll(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != logged {
			logged = err.Error()
			f.Log.Print(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// followedRun is one run and how far it was read.
type followedRun struct {
	maker *Maker
	walk  rt.Walk
	last  int64 // Seq
}

// poll reports what is new. Of runs that exist at the first poll it reports what follows.
// A run that has ended is read to its end and dropped.
func (f *follower) poll(ctx context.Context) error {
	locks, err := filepath.Glob(filepath.Join(f.Dir, "*.lock")) // a running tracker holds one
	if err != nil {
		return err
	}
	paths := slices.Collect(maps.Keys(f.runs))
	for _, lock := range locks {
		if path := strings.TrimSuffix(lock, ".lock") + ".db"; f.runs[path] == nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	var failed error
	for _, path := range paths {
		err := f.read(ctx, path)
		isGone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, spool.ErrNotFound)
		if !isGone {
			failed = errors.Join(failed, err)
		}
	}
	f.began = true
	return failed
}

func (f *follower) read(ctx context.Context, path string) error {
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
	last, err := r.LastSeq() // after Live: the readings of a run that has ended are complete
	if err != nil {
		return err
	}
	run := f.runs[path]
	if run == nil {
		if !live {
			return nil
		}
		about := r.Run()
		run = &followedRun{maker: NewMaker(&about, f.IdleWatts)}
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
			if err := f.report(run.maker, path, prev, s); err != nil {
				return err
			}
		}
	}
	if !live {
		f.forget(path)
	}
	return nil
}

func (f *follower) forget(path string) {
	delete(f.runs, path)
	if f.node == path {
		f.node = ""
	}
}

// report puts the reports of an interval. One run reports the node, not each.
func (f *follower) report(m *Maker, path string, prev, cur *rt.Snapshot) error {
	for _, kind := range f.Kinds {
		node, reports := m.Reports(kind, prev, cur)
		if node != nil && f.node == path {
			reports = slices.Insert(reports, 0, node)
		}
		for _, r := range reports {
			if err := f.putReport(r); err != nil {
				return err
			}
		}
	}
	return nil
}
