package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/registry"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
)

// opened is the lake of a site, which is locked.
type opened struct {
	*lake.Lake
	*sitestores.Stores
}

// withLake locks and opens the lake of the site, and closes it after use.
func (o *options) withLake(ctx context.Context, stderr io.Writer, use func(*opened) error) (err error) {
	cfg, err := config.Load(o.config)
	if err == nil {
		err = o.check(cfg.Serve)
	}
	if err != nil {
		return sitestores.Misconfigured(err)
	}
	cfg.Serve.Dir = cmp.Or(o.dir, cfg.Serve.Dir)
	st, err := sitestores.OpenOwned(ctx, cfg.Serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	check, unlock, err := st.Registry.Lake.Lock(ctx)
	if errors.Is(err, registry.ErrLocked) {
		return fmt.Errorf("%w: start this again when rt-lake is done", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	c, closeCatalog, err := openCatalog(ctx, st.Registry, cfg.Serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeCatalog()) }()
	if err := st.Registry.Lake.Begin(ctx); err != nil {
		return err
	}
	l, err := lake.Open(ctx, lake.Config{
		Catalog: c, Warehouse: warehouse(cfg.Serve), Registry: st.Registry.Lake, Retain: cfg.Serve.RetainLake.Duration,
		Decode: (&decoder{st, sitestores.FiguresOfOthers(cfg.Energy)}).decode, Check: check, Problem: problemTo(stderr),
	})
	if err != nil {
		return err
	}
	return use(&opened{l, st})
}

func problemTo(stderr io.Writer) func(string, error) {
	return func(run string, err error) { cli.Message(stderr, "rt-lake", "run %s is not written: %v", run, err) }
}

// check checks the configuration of the lake.
func (o *options) check(s config.Serve) error {
	if s.Lake == "" {
		return errors.New("there is no lake: set serve.lake to a directory or to s3://bucket/prefix")
	}
	if sitestores.IsCopy(s, o.dir) {
		return fmt.Errorf("--dir %s is not serve.dir, %s, but serve.lake is the lake of that site: give a configuration with a lake of its own", o.dir, s.Dir)
	}
	return sitestores.CheckLake(s)
}

// warehouse is the address of the directory of the lake.
func warehouse(s config.Serve) string {
	if isS3(s) {
		return s.Lake
	}
	return (&url.URL{Scheme: "file", Path: s.Lake}).String()
}

func isS3(s config.Serve) bool { return strings.HasPrefix(s.Lake, "s3://") }

// openCatalog opens the catalog of the lake.
func openCatalog(ctx context.Context, r *registry.Registry, s config.Serve) (c catalog.Catalog, end func() error, err error) {
	files, err := access(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	if s.Catalog != "" {
		c, err = lake.RESTCatalog(ctx, s.Catalog, os.Getenv("RT_LAKE_TOKEN"), files)
		return c, func() error { return nil }, err
	}
	db, isPostgres, err := r.OpenDatabase()
	if err != nil {
		return nil, nil, err
	}
	c, err = lake.SQLCatalog(db, isPostgres, files)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return c, db.Close, nil
}

// access is how the files of the lake are reached. Without AWS_REGION the store names the region.
func access(ctx context.Context, s config.Serve) (map[string]string, error) {
	if !isS3(s) {
		if err := checkOwner(s.Lake, os.Geteuid()); err != nil {
			return nil, fmt.Errorf("serve.lake: %w", err)
		}
		return nil, nil
	}
	store, keys, err := sitestores.NewS3(s, "serve.lake", s.Lake)
	if err != nil {
		return nil, err
	}
	region, err := store.Region(ctx)
	if err != nil {
		return nil, fmt.Errorf("serve.lake: %w", err)
	}
	return map[string]string{
		icebergio.S3AccessKeyID: keys.Access, icebergio.S3SecretAccessKey: keys.Secret, icebergio.S3SessionToken: keys.Session,
		icebergio.S3EndpointURL: s.Endpoint, icebergio.S3Region: region,
	}, nil
}

// checkOwner refuses root in the directory of a lake of another user, who could not read or change what root writes.
func checkOwner(dir string, uid int) error {
	info, err := os.Stat(dir)
	isNew := errors.Is(err, fs.ErrNotExist)
	if uid != 0 || isNew {
		return nil
	}
	if err != nil {
		return err
	}
	return sitestores.CheckOwner(dir, info, uid)
}

// maxFile limits the spool file that is made from a record, in bytes.
const maxFile = 1 << 30

// decoder reads the records of runs.
type decoder struct {
	stores *sitestores.Stores
	add    sitereport.Add
}

// decode reads the record of a run.
func (d *decoder) decode(ctx context.Context, id string) (*lake.DecodedRun, error) {
	record, err := d.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	run, err := decodeRecord(ctx, d.stores.Temp, d.add, record)
	if err != nil {
		return nil, err
	}
	balance := site.FiguresOf(run.Report.Figures())
	run.Waste = balance.Waste(d.stores.Registry.Prices())
	return run, nil
}

// decodeRecord reads a record through a spool file in a directory of its own in temp.
func decodeRecord(ctx context.Context, temp string, add sitereport.Add, record io.Reader) (run *lake.DecodedRun, err error) {
	dir, err := os.MkdirTemp(temp, tempDirs)
	if err != nil {
		return nil, fmt.Errorf("make a directory for a record: %w", err)
	}
	r, s, err := sitereport.Decode(ctx, dir, &spool.ImportLimits{Runs: 1, Bytes: maxFile}, record, add)
	if err != nil {
		return nil, errors.Join(sitestores.Damaged(err), os.RemoveAll(dir))
	}
	return &lake.DecodedRun{
		Run: r.Run(), Report: s, Snapshots: spool.Undamaged(r.Snapshots(ctx, 1, 0), func(error) {}),
		Close: func() error { return errors.Join(r.Close(), os.RemoveAll(dir)) },
	}, nil
}

// open opens the record of a run. The error is site.ErrNotFound if the registry names none, and lake.ErrAbsent if the
// object that it names is not there.
func (d *decoder) open(ctx context.Context, id string) (io.ReadCloser, error) {
	for absent := ""; ; {
		o, err := d.stores.Registry.Objects.RecordOf(ctx, id)
		if err != nil {
			return nil, err
		}
		body, err := d.stores.Registry.Objects.Open(ctx, d.stores.Objects, o)
		isAbsent := errors.Is(err, site.ErrNotFound) && o.Stored != ""
		if isAbsent && o.Stored == absent {
			return nil, fmt.Errorf("%w: %v; the next pass tries it again; if this repeats, rt-site verify says what to do", lake.ErrAbsent, err)
		}
		if !isAbsent {
			return body, err
		}
		absent = o.Stored // once more: a new record may have replaced it meanwhile
	}
}
