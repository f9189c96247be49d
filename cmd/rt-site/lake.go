package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
)

// maxLakeFile limits the spool file that is made from a record, in bytes.
const maxLakeFile = 1 << 30

// errUnwritten means that runs are not in the lake.
var errUnwritten = errors.New("runs could not be written to the lake")

// writeLake writes what was delivered since the last time.
func writeLake(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	cfg, st, err := o.openForLake(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	l, release, err := openLake(ctx, cfg, st, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if o.rebuild {
		if err := st.registry.Lake.Rebuild(ctx); err != nil {
			return err
		}
	}
	begin := time.Now()
	done, err := l.Write(ctx)
	if err == nil {
		err = st.registry.Lake.Done(ctx, begin)
	}
	return errors.Join(err, printTotals(stdout, done, o.json))
}

func printTotals(w io.Writer, done lake.Totals, isJSON bool) (err error) {
	if isJSON {
		err = cli.PrintJSON(w, done)
	} else {
		fmt.Fprintf(w, "wrote %d runs with %d samples, removed %d runs: %d files, %d bytes\n", done.Runs, done.Samples, done.Removed, done.Files, done.Bytes)
	}
	if done.Expired > 0 && !isJSON {
		fmt.Fprintf(w, "removed %d files that are older than serve.retain_lake\n", done.Expired)
	}
	if done.Failed > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %w: %d records cannot be read, see the messages: rt-site verify says what to do", site.ErrDamaged, errUnwritten, done.Failed))
	}
	return err
}

// openForLake opens the stores of a site that has a lake.
func (o *options) openForLake(ctx context.Context) (cfg config.Config, st *stores, err error) {
	cfg, err = config.Load(o.config)
	if err != nil {
		return cfg, nil, misconfigured(err)
	}
	if cfg.Serve.Lake == "" {
		return cfg, nil, misconfigured(errors.New("there is no lake: set serve.lake to a directory or to s3://bucket/prefix"))
	}
	if o.isCopy(cfg) {
		return cfg, nil, misconfigured(fmt.Errorf("--dir %s is not serve.dir, %s, but serve.lake is the lake of that site: give a configuration with a lake of its own", o.dir, cfg.Serve.Dir))
	}
	st, err = o.openOwned(ctx)
	return cfg, st, err
}

// isCopy reports whether --dir names a directory other than the site's, such as a backup.
// serve.lake does not belong to such a directory.
func (o *options) isCopy(cfg config.Config) bool {
	return o.isSet("dir") && filepath.Clean(o.dir) != filepath.Clean(cfg.Serve.Dir)
}

// checkLake checks that the files of the lake are apart from the site's files. rt-site verify
// reports unknown files in the object store, and the directory of the site is for its user only.
func checkLake(s config.Serve) error {
	isS3 := strings.HasPrefix(s.Lake, "s3://")
	if !isS3 && !filepath.IsAbs(s.Lake) {
		return fmt.Errorf("serve.lake is %q: it must be an absolute path, or s3://bucket/prefix", s.Lake)
	}
	clean := unlinked
	if isS3 {
		clean = func(location string) string { return strings.TrimRight(location, "/") }
	}
	for name, other := range map[string]string{"serve.dir": s.Dir, "serve.objects": s.Objects} {
		lake, other := clean(s.Lake)+"/", clean(other)+"/"
		isApart := !strings.HasPrefix(lake, other) && !strings.HasPrefix(other, lake)
		isOfKind := strings.HasPrefix(other, "s3:/") == isS3
		if isOfKind && !isApart {
			return fmt.Errorf("serve.lake, %s, and %s, %s, are one in the other: give the lake a place of its own", s.Lake, name, strings.TrimSuffix(other, "/"))
		}
	}
	return nil
}

// unlinked returns a path without symbolic links, as far as its directories exist.
func unlinked(path string) string {
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	parent := filepath.Dir(path)
	switch {
	case err == nil:
		return real
	case parent == path:
		return path
	}
	return filepath.Join(unlinked(parent), filepath.Base(path))
}

// openLake opens the lake of a site, and locks it until release is called.
func openLake(ctx context.Context, cfg config.Config, st *stores, stderr io.Writer) (l *lake.Lake, release func() error, err error) {
	if err := checkLake(cfg.Serve); err != nil {
		return nil, nil, misconfigured(err)
	}
	store, closeStore, err := lakeStore(ctx, cfg.Serve)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeStore())
		}
	}()
	check, unlock, err := st.registry.Lake.Lock(ctx)
	if errors.Is(err, registry.ErrLocked) {
		return nil, nil, fmt.Errorf("%w: start this again when rt-site lake is done", err)
	}
	if err != nil {
		return nil, nil, err
	}
	o := lakeOptions(cfg, st, stderr)
	o.Store, o.Registry, o.Check, o.Retain = store, st.registry.Lake, check, cfg.Serve.RetainLake.Duration
	l, err = lake.New(o)
	if err != nil {
		return nil, nil, errors.Join(err, unlock())
	}
	return l, func() error { return errors.Join(unlock(), closeStore()) }, nil
}

// lakeStore opens the directory or the bucket of the lake.
func lakeStore(ctx context.Context, s config.Serve) (store site.ObjectStore, closeStore func() error, err error) {
	if strings.HasPrefix(s.Lake, "s3://") {
		s.Objects = s.Lake
		store, err := openS3(ctx, s)
		if err != nil {
			return nil, nil, fmt.Errorf("serve.lake: %w", err)
		}
		return store, func() error { return nil }, nil
	}
	if err := checkLakeOwner(s.Lake, os.Geteuid()); err != nil {
		return nil, nil, fmt.Errorf("serve.lake: %w", err)
	}
	dir, err := objects.OpenGroupDir(s.Lake)
	if err != nil {
		return nil, nil, fmt.Errorf("serve.lake: %w", err)
	}
	unlock, err := dir.Exclusive() // the lock of a PostgreSQL can be lost
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("serve.lake: %w", err), dir.Close())
	}
	return dir, func() error { return errors.Join(unlock(), dir.Close()) }, nil
}

// checkLakeOwner refuses root in the directory of a lake of another user, who could not read or change what root writes.
func checkLakeOwner(dir string, uid int) error {
	info, err := os.Stat(dir)
	isNew := errors.Is(err, fs.ErrNotExist)
	if uid != 0 || isNew {
		return nil
	}
	if err != nil {
		return err
	}
	return checkOwner(dir, info, uid)
}

// lakeOptions are the options of a lake without its store.
func lakeOptions(cfg config.Config, st *stores, stderr io.Writer) lake.Config {
	d := &decoder{st: st, energy: cfg.Energy}
	return lake.Config{
		Decode: d.decode, Report: reflect.TypeFor[rtreport.Summary](), Temp: st.temp,
		Problem: func(run string, err error) { cli.Message(stderr, "rt-site", "run %s is not written: %v", run, err) },
	}
}

// decoder reads the records of runs.
type decoder struct {
	st     *stores
	energy config.Energy
}

// decode reads the record of a run.
func (d *decoder) decode(ctx context.Context, id string) (*lake.DecodedRun, error) {
	record, err := d.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	return decodeRecord(ctx, d.st.temp, figuresOfOthers(d.energy), record)
}

// decodeRecord reads a record through a spool file in a directory of its own in temp.
func decodeRecord(ctx context.Context, temp string, add sitereport.Add, record io.Reader) (run *lake.DecodedRun, err error) {
	dir, err := os.MkdirTemp(temp, "rt-lake-record-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a record: %w", err)
	}
	r, s, err := sitereport.Decode(ctx, dir, &spool.ImportLimits{Runs: 1, Bytes: maxLakeFile}, record, add)
	if err != nil {
		return nil, errors.Join(damaged(err), os.RemoveAll(dir))
	}
	return &lake.DecodedRun{
		Run: r.Run(), Report: s, Snapshots: spool.Undamaged(r.Snapshots(ctx, 1, 0), func(error) {}),
		Close: func() error { return errors.Join(r.Close(), os.RemoveAll(dir)) },
	}, nil
}

// damaged marks the errors that are about the content of a record.
func damaged(err error) error {
	for _, kind := range []error{spool.ErrRecord, spool.ErrDamaged, spool.ErrLimit, spool.ErrForeign, gempba.ErrLine, powerapi.ErrReport} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%w: %w", site.ErrDamaged, err)
		}
	}
	return err
}

// open opens the record of a run. The error is site.ErrNotFound if the registry names none, and lake.ErrAbsent if the
// object that it names is not there.
func (d *decoder) open(ctx context.Context, id string) (io.ReadCloser, error) {
	for absent := ""; ; {
		o, err := d.st.registry.Objects.RecordOf(ctx, id)
		if err != nil {
			return nil, err
		}
		body, err := d.st.registry.Objects.Open(ctx, d.st.objects, o)
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

// export writes the runs of a job to a directory.
func export(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	var id rt.Opt[uint64]
	wrong := id.UnmarshalJSON([]byte(o.job))
	switch {
	case wrong != nil || !id.Valid():
		return cli.Usage("export needs --job and the number of a job; see rt-site --help")
	case o.out == "":
		return cli.Usage("export needs --out and a directory; see rt-site --help")
	case o.format != "parquet":
		return cli.Usage("export has no format %q, only parquet; see rt-site --help", o.format)
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return misconfigured(err)
	}
	st, err := o.openExisting(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	runs, err := runsOf(ctx, st.registry, site.Filter{JobID: id, Cluster: o.cluster})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("there is no job %s with a complete record", o.job)
	}
	out, err := objects.OpenGroupDir(o.out)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// Not in serve.dir: a writer of the lake removes what it finds there of an earlier one.
	lo := lakeOptions(cfg, &stores{registry: st.registry, objects: st.objects}, stderr)
	lo.Store, lo.Check = out, func(context.Context) error { return nil }
	done, err := lake.Export(ctx, lo, runs)
	return errors.Join(err, printTotals(stdout, done, o.json))
}

// runsOf returns the runs of the jobs that a filter selects.
func runsOf(ctx context.Context, r *registry.Registry, f site.Filter) (list []site.Changed, err error) {
	const limit = 1000
	jobs := site.AllPages(func(cursor string) ([]site.JobRow, string, error) { return r.Jobs.List(ctx, f, cursor, limit) })
	for job, err := range jobs {
		if err != nil {
			return nil, err
		}
		runs := site.AllPages(func(cursor string) ([]site.StoredRun, string, error) {
			return r.Visible.OfJob(ctx, job, nil, cursor, limit)
		})
		for run, err := range runs {
			if err != nil {
				return nil, err
			}
			list = append(list, changedRun(run.ID, run.Record))
		}
	}
	return list, nil
}

func changedRun(id string, r *rt.Run) site.Changed {
	return site.Changed{ID: id, Cluster: r.Cluster, Start: r.Start, Name: r.FileStem(), Node: r.Node, JobID: r.JobID, State: r.State}
}
