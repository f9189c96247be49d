package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/resource-tracker/rt/site"
)

// markerName is the name of the object that has the registry to which the object store belongs. It
// is not below the name of a run.
const markerName = "registry.sha256"

// ErrOtherRegistry means that the object store belongs to another registry, which may name all objects
// that this one does not name.
var ErrOtherRegistry = errors.New("the object store belongs to another registry")

// marker is the content of the marker. It identifies the registry by its master key, which it does
// not reveal.
func (k keyring) marker() string { return k.seal("registry", "") + "\n" }

// CheckObjects checks that an object store is the one of a registry: it has the marker that a Server of
// the registry makes. The error is site.ErrNotFound if it has none, and ErrOtherRegistry if it has another one.
func CheckObjects(ctx context.Context, r Registry, o Objects) error {
	f, err := o.Get(ctx, markerName) // first: Secret makes the key of a registry that has none
	if err != nil {
		return fmt.Errorf("read object %s, which the service makes when it starts: %w", markerName, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("read object %s: %w", markerName, err)
	}
	master, err := r.Secret(ctx, "master", masterBytes)
	if err != nil {
		return fmt.Errorf("read the receiver's master key: %w", err)
	}
	s := &Server{conf: Config{Objects: o}, keys: keyring{master: master}}
	return s.checkMarker(ctx)
}

// claim marks the object store as that of the registry, or checks the mark that it has.
func (s *Server) claim(ctx context.Context) error {
	err := s.checkMarker(ctx)
	if errors.Is(err, site.ErrNotFound) {
		content := s.keys.marker()
		err = s.conf.Objects.Put(ctx, markerName, int64(len(content)), strings.NewReader(content))
	}
	if err != nil {
		return fmt.Errorf("mark the object store as that of the registry: %w", err)
	}
	return nil
}

// checkMarker checks that the object store belongs to the registry. The error is site.ErrNotFound if the
// store has no marker.
func (s *Server) checkMarker(ctx context.Context) error {
	f, err := s.conf.Objects.Get(ctx, markerName)
	if err != nil {
		return fmt.Errorf("read object %s, which the service makes when it starts: %w", markerName, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read object %s: %w", markerName, err)
	}
	if string(content) != s.keys.marker() {
		return fmt.Errorf("%w: use the registry of these objects (serve.database, serve.dir), or another place for the objects (serve.objects); "+
			"if that registry is lost and its objects are to be removed, delete the object %s", ErrOtherRegistry, markerName)
	}
	return nil
}
