package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// markerName is the name of the object that has the registry to which the object store belongs, and its
// newest claim. It is not below the name of a run.
const markerName = "registry.sha256"

// firstClaim is the claim of a registry that uses its object store for the first time.
const firstClaim = "first"

// ErrNotOwner means that the object store belongs to another registry, so this one must not remove
// objects from it. The other errors wrap it.
var (
	ErrNotOwner      = errors.New("the object store is not the one of this database")
	errOtherRegistry = fmt.Errorf("%w: it belongs to another one", ErrNotOwner)
	errOtherCopy     = fmt.Errorf("%w: another copy of this database has claimed it", ErrNotOwner)
	errNoMarker      = fmt.Errorf("%w: it has no object %s: check that the directory is mounted, or that the bucket is the right one "+
		"(serve.dir, serve.objects); if the objects are all there, run rt-site claim", ErrNotOwner, markerName)
)

// marker is the mark of an object store. It names the registry by the master key, which stays
// secret, and has one of the registry's last claims. The claims are random and change all the time.
// A copy does not have the claims that the registry makes later.
type marker struct {
	registry *registry.Registry
	objects  site.ObjectStore
	keys     keyring
}

func newMarker(ctx context.Context, r *registry.Registry, o site.ObjectStore) (*marker, error) {
	master, err := r.Settings.Secret(ctx, "master", masterBytes)
	if err != nil {
		return nil, fmt.Errorf("read the receiver's master key: %w", err)
	}
	return &marker{r, o, keyring{master: master}}, nil
}

// CheckObjects checks that an object store belongs to a registry or to a copy of it, which may read
// the store. Otherwise the error is ErrNotOwner.
func CheckObjects(ctx context.Context, r *registry.Registry, o site.ObjectStore) error {
	f, err := o.Get(ctx, markerName) // first: Secret makes the key of a registry that has none
	if errors.Is(err, site.ErrNotFound) {
		return errNoMarker
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("read object %s: %w", markerName, err)
	}
	m, err := newMarker(ctx, r, o)
	if err == nil {
		_, err = m.read(ctx)
	}
	return err
}

// Renew checks that an object store belongs to a registry and to no other copy of it, and makes a
// new claim. A registry that has not used an object store takes one without a mark. The error is
// ErrNotOwner if the registry must not remove objects.
func Renew(ctx context.Context, r *registry.Registry, o site.ObjectStore) error {
	m, err := newMarker(ctx, r, o)
	if err != nil {
		return err
	}
	return m.renew(ctx)
}

// Claim gives an object store to this copy of a registry. Receivers of other copies end.
func Claim(ctx context.Context, r *registry.Registry, o site.ObjectStore) error {
	m, err := newMarker(ctx, r, o)
	if err != nil {
		return err
	}
	_, err = m.read(ctx)
	if err != nil && !errors.Is(err, errNoMarker) {
		return err
	}
	claims, err := r.Settings.Claims(ctx)
	if err != nil {
		return err
	}
	return m.addClaim(ctx, append(claims, "")[0])
}

func (m *marker) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	claims, found, err := m.check(ctx)
	switch {
	case err != nil:
		return err
	case len(claims) == 0: // the mark is first: a crash in between leaves what the next start accepts
		err := m.write(ctx, firstClaim)
		if err != nil {
			return err
		}
		return m.registry.Settings.AddClaim(ctx, "", firstClaim)
	case found == claims[0]:
		err = m.addClaim(ctx, found)
	default: // the newest one was not written: a crash, or another receiver is about to do so
		err = m.write(ctx, claims[0])
	}
	if errors.Is(err, site.ErrFull) { // the old claim is valid, and retention makes room
		return nil
	}
	return err
}

// check returns the claims of the registry and the claim in the mark. The error is ErrNotOwner if
// the mark has none of these claims.
func (m *marker) check(ctx context.Context) (claims []string, found string, err error) {
	claims, found, err = m.compare(ctx)
	if errors.Is(err, errNoMarker) { // another receiver may have made the first mark and claim in between
		return m.compare(ctx)
	}
	return claims, found, err
}

func (m *marker) compare(ctx context.Context) (claims []string, found string, err error) {
	found, err = m.read(ctx) // before the claims: a new claim is in the registry first
	isUnmarked := errors.Is(err, errNoMarker)
	if err != nil && !isUnmarked {
		return nil, "", err
	}
	claims, unread := m.registry.Settings.Claims(ctx)
	isNew := len(claims) == 0 && (isUnmarked || found == firstClaim)
	switch {
	case unread != nil:
		return nil, "", unread
	case isNew:
		return nil, found, nil
	case isUnmarked:
		return nil, "", errNoMarker
	case !slices.Contains(claims, found):
		return nil, "", fmt.Errorf("%w, and may name objects that this one does not name: to use this copy, such as after a restore, "+
			"stop the receivers of the other one and run rt-site claim; for a test of a backup use a copy of the objects (serve.objects)", errOtherCopy)
	}
	return claims, found, nil
}

// addClaim adds a claim to the registry, and then to the mark.
func (m *marker) addClaim(ctx context.Context, newest string) error {
	if err := m.registry.Settings.AddClaim(ctx, newest, strings.ToLower(rand.Text())); err != nil {
		return err
	}
	claims, err := m.registry.Settings.Claims(ctx)
	if err != nil {
		return err
	}
	return m.write(ctx, claims[0]) // of this receiver, or of another one that was faster
}

func (m *marker) write(ctx context.Context, claim string) error {
	content := m.keys.seal("registry", "") + " " + claim + "\n"
	if err := m.objects.Put(ctx, markerName, int64(len(content)), strings.NewReader(content)); err != nil {
		return fmt.Errorf("mark the object store as that of the database: %w", err)
	}
	return nil
}

// read returns the claim of the mark. The error is ErrNotOwner if there is none, or another registry's.
func (m *marker) read(ctx context.Context) (claim string, err error) {
	f, err := m.objects.Get(ctx, markerName)
	if errors.Is(err, site.ErrNotFound) {
		return "", errNoMarker
	}
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read object %s: %w", markerName, err)
	}
	registry, claim, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	if registry != m.keys.seal("registry", "") {
		return "", fmt.Errorf("%w: use the database of these objects (serve.database, serve.dir), or another place for the objects (serve.objects); "+
			"if that database is lost and its objects are to be removed, delete the object %s", errOtherRegistry, markerName)
	}
	return claim, nil
}
