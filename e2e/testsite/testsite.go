// Package testsite makes the receiver of rt-site in the process of a test.
package testsite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sync"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/registry"
)

// Config are the limits and the dialect of a receiver.
type Config = api.Config

// Open returns a receiver that accepts a token. Without Config.RunOf it takes no records, as Sentinel. Its database
// is in a directory, and its large objects are in memory. site/objects would link a client of S3, and its
// initialization needs descriptors that some tests of programs lack.
func Open(ctx context.Context, dir, token string, c Config) (s *api.Server, closeAll func() error, err error) {
	return OpenWith(ctx, dir, token, c, registry.Config{})
}

// OpenWith is Open with options of the database.
func OpenWith(ctx context.Context, dir, token string, c Config, o registry.Config) (s *api.Server, closeAll func() error, err error) {
	r, err := registry.Open(ctx, filepath.Join(dir, "registry.db"), o)
	if err != nil {
		return nil, nil, err
	}
	c.Registry, c.Objects, c.Temp = r, Memory(), dir
	c.Tokens = []api.Token{{Hash: site.HashToken(token)}}
	s, err = api.New(ctx, c)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return s, func() error { return errors.Join(s.Close(), r.Close()) }, nil
}

// Memory returns an object store that is empty.
func Memory() site.ObjectStore { return &memory{objects: map[string][]byte{}} }

// memory is an object store.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (m *memory) Put(_ context.Context, name string, size int64, body io.Reader) error {
	content, err := io.ReadAll(body)
	if err == nil && int64(len(content)) != size {
		err = fmt.Errorf("object %s has %d bytes, not %d", name, len(content), size)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[name] = content
	return nil
}

func (m *memory) Get(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[name]
	if !ok {
		return nil, site.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, name)
	return nil
}

// List is empty: no test lets a receiver look for unused objects.
func (m *memory) List(context.Context, string) iter.Seq2[site.Stored, error] {
	return func(func(site.Stored, error) bool) {}
}
