package api

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// memory is an object store in memory, next to a registry.
type memory struct {
	database string // path of the registry

	mu    sync.Mutex
	store map[string]stored
	fault func(method string) error // may be nil
}

type stored struct {
	content  []byte
	modified time.Time
}

// newStores returns a new registry and an empty object store.
func newStores(t testing.TB) (*registry.Registry, *memory) {
	t.Helper()
	return openStores(t, filepath.Join(t.TempDir(), "registry.db"))
}

func openStores(t testing.TB, database string) (*registry.Registry, *memory) {
	t.Helper()
	r, err := registry.Open(context.Background(), database, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, &memory{database: database, store: map[string]stored{}}
}

// memoryOf is the object store of a Server.
func memoryOf(s *Server) *memory { return s.conf.Objects.(*memory) }

// query runs a statement in the registry, and returns the number that it selects.
func (m *memory) query(t testing.TB, statement string, args ...any) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+m.database+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(statement, args...).Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

// refuse lets the registry fail at a change, such as "INSERT ON object", until accept.
func (m *memory) refuse(t testing.TB, change string) {
	t.Helper()
	m.query(t, "CREATE TRIGGER refused BEFORE "+change+" BEGIN SELECT RAISE(ABORT, '/secret/registry.db is damaged'); END")
}

func (m *memory) accept(t testing.TB) {
	t.Helper()
	m.query(t, "DROP TRIGGER refused")
}

// runOfID returns a run of the registry.
func runOfID(t testing.TB, s *Server, id string) site.StoredRun {
	t.Helper()
	run, err := s.conf.Registry.Runs.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// enter locks the memory, and returns the fault of a method.
func (m *memory) enter(ctx context.Context, method string) error {
	m.mu.Lock()
	if m.fault != nil {
		if err := m.fault(method); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *memory) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	content, err := io.ReadAll(body)
	defer m.mu.Unlock()
	if fault := m.enter(ctx, "Put"); fault != nil {
		return fault
	}
	if int64(len(content)) != size {
		return fmt.Errorf("object %s has %d bytes of %d", name, len(content), size)
	}
	m.store[name] = stored{content, time.Now()}
	return err
}

func (m *memory) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Get"); err != nil {
		return nil, err
	}
	s, ok := m.store[name]
	if !ok {
		return nil, site.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(s.content)), nil
}

func (m *memory) Delete(ctx context.Context, name string) error {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Delete"); err != nil {
		return err
	}
	if _, isLimited := ctx.Deadline(); !isLimited {
		return errors.New("a request without a limit of time")
	}
	delete(m.store, name)
	return nil
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[site.Stored, error] {
	m.mu.Lock()
	all := maps.Clone(m.store)
	m.mu.Unlock()
	return func(yield func(site.Stored, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := site.Stored{Name: name, Bytes: int64(len(all[name].content)), Modified: all[name].modified}
			if strings.HasPrefix(name, prefix) && !yield(s, nil) {
				return
			}
		}
	}
}

// bytes is the size of all that is stored.
func (m *memory) bytes(t testing.TB) (n int) {
	n = m.query(t, `SELECT (SELECT coalesce(sum(length(body)), 0) FROM object) + (SELECT coalesce(sum(length(metadata)), 0) FROM run)`)
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, s := range m.store {
		if name != markerName {
			n += len(s.content)
		}
	}
	return n
}

// objects is the number of objects in the object store, without the marker.
func (m *memory) objects() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.store)
	if _, isMarked := m.store[markerName]; isMarked {
		n--
	}
	return n
}
