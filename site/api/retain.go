package api

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// expireBatch is how many runs one change of the registry removes.
const expireBatch = 100

// unusedAge is the age from which on an object that no row names is removed. It is far above the
// time that a request takes.
const unusedAge = 24 * time.Hour

// Retain removes, now and every hour until the context ends, the runs without a change for the time
// retain; 0: none. Every day it removes the objects that no run names: requests that a kill or a lost
// connection interrupted have left them. It calls Config.Fault with what could not be removed.
func (s *Server) Retain(ctx context.Context, retain time.Duration) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for hours := 0; ; hours++ {
		if retain > 0 {
			if _, err := s.expire(ctx, time.Now().Add(-retain)); err != nil && ctx.Err() == nil {
				s.conf.Fault(err)
			}
		}
		if hours%24 == 1 {
			if _, err := s.removeUnused(ctx, time.Now().Add(-unusedAge)); err != nil && ctx.Err() == nil {
				s.conf.Fault(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// expire removes the runs without a change since a time.
func (s *Server) expire(ctx context.Context, before time.Time) (removed int, err error) {
	for {
		stored, n, err := s.conf.Registry.ExpireRuns(ctx, before, expireBatch)
		if err != nil {
			return removed, fmt.Errorf("remove old runs: %w", err)
		}
		removed += n
		for _, name := range stored {
			if err := s.conf.Objects.Delete(ctx, name); err != nil {
				return removed, fmt.Errorf("remove the objects of old runs: %w", err)
			}
		}
		if n == 0 {
			return removed, nil
		}
	}
}

// removeUnused removes the objects that are older than a time and that no row names.
func (s *Server) removeUnused(ctx context.Context, before time.Time) (removed int, err error) {
	run := ""
	var named map[string]bool // the objects of this run
	for o, err := range s.conf.Objects.List(ctx, "") {
		if err != nil {
			return removed, fmt.Errorf("look for objects that no run names: %w", err)
		}
		id, _, _ := strings.Cut(o.Name, "/")
		if !nameOfRun.MatchString(id) || !o.Modified.Before(before) {
			continue // not an object of ours, or that of a request in progress
		}
		if id != run {
			named, err = s.namedBy(ctx, id)
			if err != nil {
				return removed, fmt.Errorf("look for objects that no run names: %w", err)
			}
			run = id
		}
		if named[o.Name] {
			continue
		}
		if err := s.conf.Objects.Delete(ctx, o.Name); err != nil {
			return removed, fmt.Errorf("remove an object that no run names: %w", err)
		}
		removed++
	}
	return removed, nil
}

// namedBy returns the names in the object store that a run has.
func (s *Server) namedBy(ctx context.Context, id string) (map[string]bool, error) {
	objects, err := s.conf.Registry.Objects(ctx, id)
	named := map[string]bool{}
	for _, o := range objects {
		named[o.Stored] = true
	}
	return named, err
}
