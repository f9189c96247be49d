package api

import (
	"errors"
	"strings"
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
	if !errors.Is(err, ErrOtherRegistry) || !strings.Contains(err.Error(), markerName) {
		t.Errorf("%v", err)
	}

	// The marker is replaced, or removed, while a receiver runs.
	other := newServer(t, Config{Registry: second, Objects: second})
	other.conf.Objects = first
	for _, want := range []error{ErrOtherRegistry, site.ErrNotFound} {
		removed, err := other.removeUnused(t.Context(), time.Now().Add(time.Hour))
		if removed != 0 || !errors.Is(err, want) || first.objects() != 1 {
			t.Errorf("%d removed, %d are there: %v", removed, first.objects(), err)
		}
		delete(first.store, markerName)
	}
	newServer(t, Config{Registry: second, Objects: first})
	if removed, err := other.removeUnused(t.Context(), time.Now().Add(time.Hour)); removed != 1 || err != nil {
		t.Errorf("%d removed from a store that was given up: %v", removed, err)
	}
}
