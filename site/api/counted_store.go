package api

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/resource-tracker/rt/site"
)

// CountedStore counts the calls of an object store, except Replace.
type CountedStore struct {
	site.ObjectStore
	m *Metrics
}

// CountingStore returns a store that counts the calls of another one.
func (m *Metrics) CountingStore(s site.ObjectStore) CountedStore { return CountedStore{s, m} }

// counted counts a call. An object that is not there, and an end because of the caller, are no errors of the store.
func (s CountedStore) counted(ctx context.Context, operation string, begin time.Time, err error) {
	s.m.storeLatency.WithLabelValues(operation).Observe(time.Since(begin).Seconds())
	isFailure := err != nil && ctx.Err() == nil && !errors.Is(err, site.ErrNotFound)
	if isFailure {
		s.m.store.WithLabelValues(operation).Inc()
	}
}

// Put implements site.ObjectStore.
func (s CountedStore) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	begin := time.Now()
	err := s.ObjectStore.Put(ctx, name, size, body)
	s.counted(ctx, "put", begin, err)
	return err
}

// Get implements site.ObjectStore.
func (s CountedStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	begin := time.Now()
	content, err := s.ObjectStore.Get(ctx, name)
	s.counted(ctx, "get", begin, err)
	return content, err
}

// Delete implements site.ObjectStore.
func (s CountedStore) Delete(ctx context.Context, name string) error {
	begin := time.Now()
	err := s.ObjectStore.Delete(ctx, name)
	s.counted(ctx, "delete", begin, err)
	return err
}

// List implements site.ObjectStore.
func (s CountedStore) List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		var last error
		begin := time.Now()
		for o, err := range s.ObjectStore.List(ctx, prefix) {
			last = err
			if !yield(o, err) {
				break
			}
		}
		s.counted(ctx, "list", begin, last)
	}
}
