package api

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// An object store of another registry is not used, and nothing in it is removed.
func TestObjectsOfAnotherRegistry(t *testing.T) {
	registry, first := newStores(t)
	another, second := newStores(t)
	s := newServer(t, Config{Registry: registry, Objects: first})
	g := register(t, s)
	body := packed(t, "a\n"+incompressible()+"\n")
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: body}); status != 200 {
		t.Fatal(status, answer)
	}
	newServer(t, Config{Registry: registry, Objects: first}) // a second receiver of the registry
	_, err := New(t.Context(), Config{Registry: another, Objects: first, Tokens: tokensOf(token)})
	if !errors.Is(err, errOtherRegistry) || !strings.Contains(err.Error(), markerName) {
		t.Errorf("%v", err)
	}

	// The marker is replaced, or removed, while a receiver runs.
	other := newServer(t, Config{Registry: another, Objects: second})
	other.conf.Objects = first
	other.retention.marker.objects = first
	for _, want := range []error{errOtherRegistry, errNoMarker} {
		removed, err := other.retention.removeUnused(t.Context(), time.Now().Add(time.Hour))
		if removed != 0 || !errors.Is(err, want) || first.objects() != 1 {
			t.Errorf("%d removed, %d are there: %v", removed, first.objects(), err)
		}
		delete(first.store, markerName)
	}
	second.query(t, "DELETE FROM setting WHERE name = 'claims'") // it has never had objects
	newServer(t, Config{Registry: another, Objects: first})
	if removed, err := other.retention.removeUnused(t.Context(), time.Now().Add(time.Hour)); removed != 1 || err != nil {
		t.Errorf("%d removed from a store that was given up: %v", removed, err)
	}
}

// copied returns a copy of a registry.
func copied(t *testing.T, m *memory) (*registry.Registry, *memory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.db")
	m.query(t, "VACUUM INTO ?", path)
	return openStores(t, path)
}

// A copy of a registry neither uses nor removes the objects of the original until it has claimed
// the store. Then the original ends.
func TestACopyOfTheRegistry(t *testing.T) {
	r, m := newStores(t)
	s := newServer(t, Config{Registry: r, Objects: m})
	g := register(t, s)
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}); status != 200 {
		t.Fatal(status, answer)
	}
	for range 3 {
		if err := s.retention.maintain(t.Context(), Ages{}, true); err != nil {
			t.Fatal(err)
		}
		backup, _ := copied(t, m)
		restarted := newServer(t, Config{Registry: r, Objects: m})
		if err := restarted.retention.maintain(t.Context(), Ages{}, false); err != nil {
			t.Fatal(err)
		}
		refused := func(registry *registry.Registry, s *Server) {
			t.Helper()
			conf := Config{Registry: registry, Objects: m, Tokens: tokensOf(token)}
			if _, err := New(t.Context(), conf); !errors.Is(err, ErrNotOwner) || !strings.Contains(err.Error(), "run rt-site claim") {
				t.Errorf("%v", err)
			}
			if s == nil {
				return
			}
			removed, err := s.retention.removeUnused(t.Context(), time.Now().Add(time.Hour))
			if removed != 0 || !errors.Is(err, ErrNotOwner) || !errors.Is(s.Retain(t.Context(), Ages{Runs: 1}), ErrNotOwner) || m.objects() != 1 {
				t.Errorf("%d objects are removed, %d are there: %v", removed, m.objects(), err)
			}
		}
		refused(backup, nil)
		if err := errors.Join(CheckObjects(t.Context(), backup, m), Claim(t.Context(), backup, m)); err != nil {
			t.Fatal(err)
		}
		refused(r, s)
		second := newServer(t, Config{Registry: backup, Objects: m})
		if err := Claim(t.Context(), r, m); err != nil {
			t.Fatal(err)
		}
		refused(backup, second)
		newServer(t, Config{Registry: r, Objects: m})
	}
}

// An empty object store, such as a directory that is not mounted, does not belong to a registry
// with objects.
func TestAnEmptyObjectStore(t *testing.T) {
	r, m := newStores(t)
	empty := &memory{store: map[string]stored{}}
	s := newServer(t, Config{Registry: r, Objects: m})
	conf := Config{Registry: r, Objects: empty, Tokens: tokensOf(token)}
	if _, err := New(t.Context(), conf); !errors.Is(err, errNoMarker) || !strings.Contains(err.Error(), "is mounted") || len(empty.store) > 0 {
		t.Errorf("%v, %d objects", err, len(empty.store))
	}
	delete(m.store, markerName)
	if err := s.retention.maintain(t.Context(), Ages{}, true); !errors.Is(err, errNoMarker) {
		t.Errorf("%v", err)
	}
	if err := Claim(t.Context(), r, empty); err != nil {
		t.Fatal(err)
	}
	newServer(t, conf)
}

// Receivers of one registry renew their claims at the same time, and may fail between the two changes of a claim. Together
// they make fewer claims than the 100 that a registry keeps: a receiver that stalls finds the claim that it has read.
func TestReceiversShareTheirClaims(t *testing.T) {
	r, m := newStores(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 12 {
				if err := Renew(t.Context(), r, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	err := Renew(t.Context(), r, m) // the last writer's mark may have an older claim: now it has the newest
	if err != nil {
		t.Fatal(err)
	}
	backup, _ := copied(t, m)
	m.fault = failing("Put", errors.New("connection reset"))
	for range 20 {
		if err := Renew(t.Context(), r, m); err == nil || errors.Is(err, ErrNotOwner) {
			t.Errorf("%v", err)
		}
	}
	claims, err := r.Settings.Claims(t.Context())
	before, failed := backup.Settings.Claims(t.Context())
	if err != nil || failed != nil || len(claims) < 2 || claims[1] != before[0] {
		t.Errorf("claims without a mark: %q, before %q: %v, %v", claims, before, err, failed)
	}
	m.fault = failing("Put", site.ErrFull)
	if err := Renew(t.Context(), r, m); err != nil { // retention makes room
		t.Error(err)
	}
	m.fault = nil
	if err := Renew(t.Context(), r, m); err != nil {
		t.Error(err)
	}
	if err := Renew(t.Context(), backup, m); !errors.Is(err, errOtherCopy) {
		t.Errorf("%v", err)
	}
}
