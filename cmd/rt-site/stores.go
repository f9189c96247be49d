package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/upload/drain"
)

// stores are where the runs are.
type stores struct {
	registry *registry.Registry
	objects  site.ObjectStore
	temp     string // directory of temporary files; empty: the system's
	closers  []io.Closer
}

func (st *stores) close() error {
	var failed []error
	for i := len(st.closers) - 1; i >= 0; i-- {
		failed = append(failed, st.closers[i].Close())
	}
	return errors.Join(failed...)
}

// openStores opens the registry and the object store. With PostgreSQL and S3 the directory is not used. failed
// receives the kinds of the errors of the database.
func openStores(ctx context.Context, s config.Serve, failed func(kind string)) (*stores, error) {
	o := registry.Config{Quota: s.Quota.Bytes, OwnerQuota: s.TokenQuota.Bytes, Failed: failed}
	if s.PrivacyKeyFile != "" {
		key, err := drain.ReadKey(s.PrivacyKeyFile)
		if err != nil {
			return nil, misconfigured(fmt.Errorf("serve.privacy_key_file: %w", err))
		}
		o.Pseudonym = func(user string) string { return drain.UserPseudonym(key, user) }
	}
	return openWith(ctx, s, o)
}

func openWith(ctx context.Context, s config.Serve, o registry.Config) (st *stores, err error) {
	st = &stores{}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	isLocal := s.Database == "" || s.Objects == ""
	if isLocal {
		st.temp = s.Dir
		if err := file.MkdirAll(s.Dir, 0o700); err != nil {
			return st, fmt.Errorf("make the receiver's directory (serve.dir): %w", err)
		}
	}
	st.registry, err = openRegistry(ctx, s, o)
	if err != nil {
		return st, err
	}
	st.closers = append(st.closers, st.registry)
	st.objects, err = st.openObjects(ctx, s)
	return st, err
}

func openRegistry(ctx context.Context, s config.Serve, o registry.Config) (*registry.Registry, error) {
	r, err := registry.Open(ctx, cmp.Or(s.Database, filepath.Join(s.Dir, "registry.db")), o)
	if errors.Is(err, registry.ErrDSN) {
		err = misconfigured(fmt.Errorf("serve.database: %w", err))
	}
	return r, err
}

func (st *stores) openObjects(ctx context.Context, s config.Serve) (site.ObjectStore, error) {
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

// openExisting opens the stores of a site for another verb than serve. It checks that the objects
// belong to the registry or to a copy of it.
func (o *options) openExisting(ctx context.Context) (*stores, error) {
	return o.openChecked(ctx, api.CheckObjects)
}

// openOwned is openExisting for a verb that removes objects: no other copy of the registry has claimed them.
func (o *options) openOwned(ctx context.Context) (*stores, error) {
	return o.openChecked(ctx, func(ctx context.Context, r *registry.Registry, s site.ObjectStore) error {
		if err := api.CheckObjects(ctx, r, s); err != nil {
			return err
		}
		return api.Renew(ctx, r, s)
	})
}

// openChecked opens the stores of a site and calls check. It creates and migrates none, has no quotas, and
// refuses to create files that the service could not read.
func (o *options) openChecked(ctx context.Context, check func(context.Context, *registry.Registry, site.ObjectStore) error) (*stores, error) {
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, misconfigured(err)
	}
	s := cfg.Serve
	if o.isSet("dir") {
		s.Dir = o.dir
	}
	if err := checkDir(s); err != nil {
		return nil, err
	}
	st, err := openWith(ctx, s, registry.Config{Existing: true}) // no quotas: pseudonyms can be longer than names
	if err != nil {
		return nil, err
	}
	if err := check(ctx, st.registry, st.objects); err != nil {
		return nil, errors.Join(notOwner(err), st.close())
	}
	return st, nil
}

// notOwner marks the error of an object store that belongs to another registry.
func notOwner(err error) error {
	if errors.Is(err, api.ErrNotOwner) {
		return misconfigured(err)
	}
	return err
}

// errOtherUser means that the files of a site belong to another user.
var errOtherUser = errors.New("the files of the site belong to another user")

// checkDir checks that the files of a site are there, and that they belong to the user of this process.
func checkDir(s config.Serve) error {
	path := s.Dir
	if s.Database == "" {
		path = filepath.Join(s.Dir, "registry.db")
	}
	isRemote := s.Database != "" && s.Objects != ""
	if isRemote {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("there is no site at serve.dir: %w; set serve.dir as rt-site serve has it, or give --dir", err)
	}
	if err := checkOwner(path, info, os.Geteuid()); err != nil {
		return err
	}
	if s.Objects != "" {
		return nil
	}
	_, err = os.Stat(filepath.Join(s.Dir, "objects"))
	if errors.Is(err, fs.ErrNotExist) {
		return misconfigured(fmt.Errorf("there are no objects at serve.dir: %w; set serve.dir and serve.objects as rt-site serve has them, or give --dir", err))
	}
	return err
}

// checkOwner checks that a file belongs to a user.
func checkOwner(path string, info fs.FileInfo, uid int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if owner == uid {
		return nil
	}
	name := strconv.Itoa(owner)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return errkind.With(errOtherUser, fmt.Errorf("%s belongs to the user %[2]s: run this as that user, which root does with runuser -u %[2]s", path, name))
}

// openS3 opens the bucket and checks that it can be read.
func openS3(ctx context.Context, s config.Serve) (*objects.S3, error) {
	keys, err := keysOf(s.Keys, os.Getenv)
	if err != nil {
		return nil, misconfigured(err)
	}
	store, err := objects.NewS3(objects.S3Config{
		Location: s.Objects, Endpoint: s.Endpoint, Region: os.Getenv("AWS_REGION"),
		AccessKey: keys.access, SecretKey: keys.secret, Session: keys.session,
	})
	if err != nil {
		return nil, misconfigured(fmt.Errorf("serve.objects: %w", err))
	}
	if err := store.Check(ctx); err != nil {
		return nil, fmt.Errorf("serve.objects: %w", err)
	}
	return store, nil
}

// keys are the credentials of an object store.
type keys struct{ access, secret, session string }

// keysOf returns the credentials in a file of the form of ~/.aws/credentials, in its section
// [default]; without a file those in the environment.
func keysOf(file string, getenv func(string) string) (k keys, err error) {
	if file == "" {
		k = keys{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	} else {
		text, err := os.ReadFile(file)
		if err != nil {
			return keys{}, fmt.Errorf("serve.objects_keys: %w", err)
		}
		k = parseKeys(string(text))
	}
	if k.access == "" || k.secret == "" {
		return keys{}, errors.New("there are no credentials for serve.objects: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY " +
			"in the environment, or aws_access_key_id and aws_secret_access_key in the file of serve.objects_keys")
	}
	return k, nil
}

func parseKeys(text string) (k keys) {
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
			k.access = value
		case "aws_secret_access_key":
			k.secret = value
		case "aws_session_token":
			k.session = value
		}
	}
	return k
}
