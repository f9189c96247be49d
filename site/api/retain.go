package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// Ages is how long data stay after the end of their run; 0: forever.
type Ages struct {
	Runs    time.Duration // everything of a run, counted from its last change
	Records time.Duration // complete records of finished runs
	CSV     time.Duration // rows of finished runs
}

// expireBatch is how many runs one change of the registry removes.
const expireBatch = 100

// unusedAge is the age from which on an object that no row names is removed. It is far above the
// time that a request takes.
const unusedAge = 24 * time.Hour

// Retain removes what is old, now and every hour until the context ends. Every day it removes the
// objects that no run names, which interrupted requests have left. Config.Fault gets what could not
// be removed. First Retain renews the claim to the object store. It returns ErrNotOwner if another
// copy of the registry has claimed the store: the Server must not be used any more.
func (s *Server) Retain(ctx context.Context, retain Ages) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for hours := 0; ; hours++ {
		err := s.retention.maintain(ctx, retain, hours%24 == 1)
		if errors.Is(err, ErrNotOwner) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.conf.Fault(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// retention removes what is old, and what no run names.
type retention struct {
	conf   *Config
	marker *marker
	blobs  blobs
}

// maintain is what Retain does at one time.
func (s *retention) maintain(ctx context.Context, retain Ages, isDaily bool) error {
	if err := s.marker.renew(ctx); err != nil {
		return err
	}
	err := s.expireAll(ctx, retain, time.Now())
	err = errors.Join(err, s.conf.Registry.Live.Expire(ctx, time.Now()), s.conf.Registry.Sessions.Expire(ctx, time.Now()))
	if isDaily {
		_, unused := s.removeUnused(ctx, time.Now().Add(-unusedAge))
		err = errors.Join(err, unused)
	}
	return err
}

// expireAll removes what is too old now, whole runs first.
func (s *retention) expireAll(ctx context.Context, retain Ages, now time.Time) error {
	registry := s.conf.Registry
	class := func(c site.Class) expireFunc {
		return func(ctx context.Context, before time.Time, limit int) ([]string, int, error) {
			return registry.Removals.Expire(ctx, c, before, limit)
		}
	}
	for _, kind := range []struct {
		after  time.Duration
		remove expireFunc
	}{
		{retain.Runs, registry.Removals.ExpireRuns}, {retain.Records, class(site.ClassRecord)},
		{retain.CSV, class(site.ClassCSV)}, {retain.CSV, class(site.ClassInline)},
	} {
		if kind.after <= 0 {
			continue
		}
		if err := s.expire(ctx, now.Add(-kind.after), kind.remove); err != nil {
			return err
		}
	}
	return nil
}

// expireFunc is a method of a registry that removes what is older than before.
type expireFunc func(ctx context.Context, before time.Time, limit int) (stored []string, n int, err error)

// expire calls remove until nothing is left that is older than before.
func (s *retention) expire(ctx context.Context, before time.Time, remove expireFunc) error {
	for {
		stored, n, failed := remove(ctx, before, expireBatch)
		for _, name := range stored {
			if err := s.blobs.remove(ctx, name); err != nil {
				return errors.Join(fmt.Errorf("remove the objects of old runs: %w", err), failed)
			}
		}
		if failed != nil {
			return fmt.Errorf("remove old runs: %w", failed)
		}
		if n == 0 {
			return nil
		}
	}
}

// removeUnused removes the objects that are older than a time and that no row names, if the object store
// belongs to the registry.
func (s *retention) removeUnused(ctx context.Context, before time.Time) (removed int, err error) {
	if _, _, err := s.marker.check(ctx); err != nil {
		return 0, fmt.Errorf("look for objects that no run names: %w", err)
	}
	for o, err := range s.conf.Registry.Objects.Unnamed(ctx, s.conf.Objects, before) {
		if err != nil {
			return removed, err
		}
		id, _, _ := strings.Cut(o.Name, "/")
		if !nameOfRun.MatchString(id) {
			continue // not an object of ours
		}
		if err := s.blobs.remove(ctx, o.Name); err != nil {
			return removed, fmt.Errorf("remove an object that no run names: %w", err)
		}
		removed++
	}
	return removed, nil
}

// remove removes an object, within storeTime.
func (s blobs) remove(ctx context.Context, stored string) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	return s.objects.Delete(ctx, stored)
}
