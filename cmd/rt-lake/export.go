package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/registry"
)

// export writes the runs of a job to a directory.
func export(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	var id rt.Opt[uint64]
	wrong := id.UnmarshalJSON([]byte(o.job))
	switch {
	case wrong != nil || !id.Valid():
		return cli.Usage("export needs --job and the number of a job; see rt-lake --help")
	case o.out == "":
		return cli.Usage("export needs --out and a directory; see rt-lake --help")
	case o.format != "parquet":
		return cli.Usage("export has no format %q, only parquet; see rt-lake --help", o.format)
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return sitestores.Misconfigured(err)
	}
	cfg.Serve.Dir = cmp.Or(o.dir, cfg.Serve.Dir)
	st, err := sitestores.OpenExisting(ctx, cfg.Serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	runs, err := runsOf(ctx, st.Registry, site.Filter{JobID: id, Cluster: o.cluster})
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("there is no job %s with a complete record", o.job)
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	// Not in serve.dir: a writer of the lake removes what it finds there of an earlier one.
	d := &decoder{&sitestores.Stores{Registry: st.Registry, Objects: st.Objects}, sitestores.FiguresOfOthers(cfg.Energy)}
	done, err := lake.Export(ctx, d.decode, problemTo(stderr), runs, func(table string) (io.WriteCloser, error) {
		return os.OpenFile(filepath.Join(o.out, table+".parquet"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	})
	if err != nil {
		return err
	}
	return o.print(stdout, done)
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
			r := run.Record
			list = append(list, site.Changed{ID: run.ID, Cluster: r.Cluster, Start: r.Start, Name: r.FileStem(), Node: r.Node, JobID: r.JobID, State: r.State})
		}
	}
	return list, nil
}
