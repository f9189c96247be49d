package api

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

// An object store of another registry is not used, and nothing in it is removed.
func TestObjectsOfAnotherRegistry(t *testing.T) {
	first, second := newMemory(), newMemory()
	s := newServer(t, Config{Registry: first, Objects: first})
	g := register(t, s)
	body := packed(t, "a\n"+incompressible()+"\n")
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: body}); status != 200 {
		t.Fatal(status, answer)
	}
	newServer(t, Config{Registry: first, Objects: first}) // a second receiver of the registry
	_, err := New(t.Context(), Config{Registry: second, Objects: first, Tokens: tokensOf(token)})
	if !errors.Is(err, errOtherRegistry) || !strings.Contains(err.Error(), markerName) {
		t.Errorf("%v", err)
	}

	// The marker is replaced, or removed, while a receiver runs.
	other := newServer(t, Config{Registry: second, Objects: second})
	other.conf.Objects = first
	other.marker.objects = first
	for _, want := range []error{errOtherRegistry, errNoMarker} {
		removed, err := other.removeUnused(t.Context(), time.Now().Add(time.Hour))
		if removed != 0 || !errors.Is(err, want) || first.objects() != 1 {
			t.Errorf("%d removed, %d are there: %v", removed, first.objects(), err)
		}
		delete(first.store, markerName)
	}
	second.claims = nil // it has never had objects
	newServer(t, Config{Registry: second, Objects: first})
	if removed, err := other.removeUnused(t.Context(), time.Now().Add(time.Hour)); removed != 1 || err != nil {
		t.Errorf("%d removed from a store that was given up: %v", removed, err)
	}
}

// copied returns a copy of a registry, without its runs.
func copied(m *memory) *memory {
	c := newMemory()
	c.secret, c.claims = m.secret, slices.Clone(m.claims)
	return c
}

// A copy of a registry does not use the objects of the original, and removes none of them, until it has claimed
// them. Then the original ends.
func TestACopyOfTheRegistry(t *testing.T) {
	m := newMemory()
	s := newServer(t, Config{Registry: m, Objects: m})
	g := register(t, s)
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}); status != 200 {
		t.Fatal(status, answer)
	}
	for range 3 {
		if err := s.maintain(t.Context(), Ages{}, true); err != nil {
			t.Fatal(err)
		}
		backup := copied(m)
		restarted := newServer(t, Config{Registry: m, Objects: m})
		if err := restarted.maintain(t.Context(), Ages{}, false); err != nil {
			t.Fatal(err)
		}
		refused := func(registry *memory, s *Server) {
			t.Helper()
			conf := Config{Registry: registry, Objects: m, Tokens: tokensOf(token)}
			if _, err := New(t.Context(), conf); !errors.Is(err, ErrNotOwner) || !strings.Contains(err.Error(), "run rt-site claim") {
				t.Errorf("%v", err)
			}
			if s == nil {
				return
			}
			removed, err := s.removeUnused(t.Context(), time.Now().Add(time.Hour))
			if removed != 0 || !errors.Is(err, ErrNotOwner) || !errors.Is(s.Retain(t.Context(), Ages{Runs: 1}), ErrNotOwner) || m.objects() != 1 {
				t.Errorf("%d objects are removed, %d are there: %v", removed, m.objects(), err)
			}
		}
		refused(backup, nil)
		if err := errors.Join(CheckObjects(t.Context(), backup, m), Claim(t.Context(), backup, m)); err != nil {
			t.Fatal(err)
		}
		refused(m, s)
		second := newServer(t, Config{Registry: backup, Objects: m})
		if err := Claim(t.Context(), m, m); err != nil {
			t.Fatal(err)
		}
		refused(backup, second)
		newServer(t, Config{Registry: m, Objects: m})
	}
}

// An object store that is empty, such as a directory that is not mounted, is not that of a registry with objects.
func TestAnEmptyObjectStore(t *testing.T) {
	m, empty := newMemory(), newMemory()
	s := newServer(t, Config{Registry: m, Objects: m})
	conf := Config{Registry: m, Objects: empty, Tokens: tokensOf(token)}
	if _, err := New(t.Context(), conf); !errors.Is(err, errNoMarker) || !strings.Contains(err.Error(), "is mounted") || len(empty.store) > 0 {
		t.Errorf("%v, %d objects", err, len(empty.store))
	}
	delete(m.store, markerName)
	if err := s.maintain(t.Context(), Ages{}, true); !errors.Is(err, errNoMarker) {
		t.Errorf("%v", err)
	}
	if err := Claim(t.Context(), m, empty); err != nil {
		t.Fatal(err)
	}
	newServer(t, conf)
}

// Receivers of one registry renew their claims at the same time, and may fail between the two changes of a claim.
func TestReceiversShareTheirClaims(t *testing.T) {
	m := newMemory()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if err := Renew(t.Context(), m, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	err := Renew(t.Context(), m, m) // the last writer's mark may have an older claim: now it has the newest
	if err != nil {
		t.Fatal(err)
	}
	backup := copied(m)
	m.fault = func(method string) error {
		if method == "Put" {
			return errors.New("connection reset")
		}
		return nil
	}
	for range 20 {
		if err := Renew(t.Context(), m, m); err == nil || errors.Is(err, ErrNotOwner) {
			t.Errorf("%v", err)
		}
	}
	if len(m.claims) != len(backup.claims)+1 {
		t.Errorf("%d claims without a mark", len(m.claims)-len(backup.claims))
	}
	m.fault = func(method string) error {
		if method == "Put" || method == "AddClaim" {
			return site.ErrFull
		}
		return nil
	}
	if err := Renew(t.Context(), m, m); err != nil { // retention makes room
		t.Error(err)
	}
	m.fault = nil
	if err := Renew(t.Context(), m, m); err != nil {
		t.Error(err)
	}
	if err := Renew(t.Context(), backup, m); !errors.Is(err, errOtherCopy) {
		t.Errorf("%v", err)
	}
}
