// Package sitestores opens what a site has stored, for the programs of a site.
package sitestores

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/upload/drain"
)

// ErrConfig means that the configuration must be changed first.
var ErrConfig = errors.New("configuration")

// Misconfigured marks an error that is fixed in the configuration.
func Misconfigured(err error) error { return errkind.With(ErrConfig, err) }

// Stores are where the runs are.
type Stores struct {
	Registry *registry.Registry
	Objects  site.ObjectStore
	Temp     string // directory of temporary files; empty: the system's
	closers  []io.Closer
}

// Close closes the stores.
func (st *Stores) Close() error {
	var failed []error
	for i := len(st.closers) - 1; i >= 0; i-- {
		failed = append(failed, st.closers[i].Close())
	}
	return errors.Join(failed...)
}

// Open opens the registry and the object store. With PostgreSQL and S3 the directory is not used. failed
// receives the kinds of the errors of the database.
func Open(ctx context.Context, s config.Serve, failed func(kind string)) (*Stores, error) {
	o := registry.Config{Quota: s.Quota.Bytes, OwnerQuota: s.TokenQuota.Bytes, Failed: failed}
	if s.PrivacyKeyFile != "" {
		key, err := drain.ReadKey(s.PrivacyKeyFile)
		if err != nil {
			return nil, Misconfigured(fmt.Errorf("serve.privacy_key_file: %w", err))
		}
		o.Pseudonym = func(user string) string { return drain.UserPseudonym(key, user) }
	}
	return openWith(ctx, s, o)
}

func openWith(ctx context.Context, s config.Serve, o registry.Config) (st *Stores, err error) {
	st = &Stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.Close())
		}
	}()
	isLocal := s.Database == "" || s.Objects == ""
	if isLocal {
		st.Temp = s.Dir
		if err := file.MkdirAll(s.Dir, 0o700); err != nil {
			return st, fmt.Errorf("make the receiver's directory (serve.dir): %w", err)
		}
	}
	st.Registry, err = OpenRegistry(ctx, s, o)
	if err != nil {
		return st, err
	}
	st.closers = append(st.closers, st.Registry)
	st.Objects, err = st.OpenObjects(ctx, s)
	return st, err
}

// OpenRegistry opens the registry of a site.
func OpenRegistry(ctx context.Context, s config.Serve, o registry.Config) (*registry.Registry, error) {
	r, err := registry.Open(ctx, cmp.Or(s.Database, filepath.Join(s.Dir, "registry.db")), o)
	if errors.Is(err, registry.ErrDSN) {
		err = Misconfigured(fmt.Errorf("serve.database: %w", err))
	}
	return r, err
}

// OpenObjects opens the object store of a site.
func (st *Stores) OpenObjects(ctx context.Context, s config.Serve) (site.ObjectStore, error) {
	if s.Objects != "" {
		store, err := openS3(ctx, s)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	dir, err := objects.OpenDir(filepath.Join(s.Dir, "objects"))
	if err != nil {
		return nil, err
	}
	st.closers = append(st.closers, dir)
	return dir, nil
}

// OpenExisting opens the stores of a site for another verb than serve. It checks that the objects
// belong to the registry or to a copy of it.
func OpenExisting(ctx context.Context, s config.Serve) (*Stores, error) {
	return openChecked(ctx, s, api.CheckObjects)
}

// OpenOwned is OpenExisting for a verb that removes objects: no other copy of the registry has claimed them.
func OpenOwned(ctx context.Context, s config.Serve) (*Stores, error) {
	return openChecked(ctx, s, func(ctx context.Context, r *registry.Registry, s site.ObjectStore) error {
		if err := api.CheckObjects(ctx, r, s); err != nil {
			return err
		}
		return api.Renew(ctx, r, s)
	})
}

// OpenAny is OpenExisting for objects that may be of another registry.
func OpenAny(ctx context.Context, s config.Serve) (*Stores, error) {
	return openChecked(ctx, s, func(context.Context, *registry.Registry, site.ObjectStore) error { return nil })
}

// openChecked opens the stores of a site and calls check. It creates and migrates none, has no quotas, and
// refuses to create files that the service could not read.
func openChecked(ctx context.Context, s config.Serve, check func(context.Context, *registry.Registry, site.ObjectStore) error) (*Stores, error) {
	if err := CheckDir(s); err != nil {
		return nil, err
	}
	st, err := openWith(ctx, s, registry.Config{Existing: true}) // no quotas: pseudonyms can be longer than names
	if err != nil {
		return nil, err
	}
	if err := check(ctx, st.Registry, st.Objects); err != nil {
		return nil, errors.Join(NotOwner(err), st.Close())
	}
	return st, nil
}

// NotOwner marks the error of an object store that belongs to another registry.
func NotOwner(err error) error {
	if errors.Is(err, api.ErrNotOwner) {
		return Misconfigured(err)
	}
	return err
}

// openS3 opens the bucket and checks that it can be read.
func openS3(ctx context.Context, s config.Serve) (*objects.S3, error) {
	store, _, err := NewS3(s, "serve.objects", s.Objects)
	if err != nil {
		return nil, err
	}
	if err := store.Check(ctx); err != nil {
		return nil, fmt.Errorf("serve.objects: %w", err)
	}
	return store, nil
}

// NewS3 returns the access to the bucket that a key of the configuration names. It does not connect.
func NewS3(s config.Serve, key, location string) (*objects.S3, Keys, error) {
	keys, err := KeysOf(s.Keys, os.Getenv)
	if err != nil {
		return nil, keys, Misconfigured(err)
	}
	store, err := objects.NewS3(objects.S3Config{
		Location: location, Endpoint: s.Endpoint, Region: os.Getenv("AWS_REGION"),
		AccessKey: keys.Access, SecretKey: keys.Secret, Session: keys.Session,
	})
	if err != nil {
		return nil, keys, Misconfigured(fmt.Errorf("%s: %w", key, err))
	}
	return store, keys, nil
}

// Keys are the credentials of an object store.
type Keys struct{ Access, Secret, Session string }

// KeysOf returns the credentials in a file of the form of ~/.aws/credentials, in its section
// [default]; without a file those in the environment.
func KeysOf(file string, getenv func(string) string) (k Keys, err error) {
	if file == "" {
		k = Keys{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	} else {
		text, err := os.ReadFile(file)
		if err != nil {
			return Keys{}, fmt.Errorf("serve.objects_keys: %w", err)
		}
		k = parseKeys(string(text))
	}
	if k.Access == "" || k.Secret == "" {
		return Keys{}, errors.New("there are no credentials for serve.objects: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY " +
			"in the environment, or aws_access_key_id and aws_secret_access_key in the file of serve.objects_keys")
	}
	return k, nil
}

func parseKeys(text string) (k Keys) {
	section := "[default]"
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		if section != "[default]" {
			continue
		}
		switch strings.TrimSpace(name) {
		case "aws_access_key_id":
			k.Access = value
		case "aws_secret_access_key":
			k.Secret = value
		case "aws_session_token":
			k.Session = value
		}
	}
	return k
}
