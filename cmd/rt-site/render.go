package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/internal/printable"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/html"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
)

// renderVerb is the verb by which the service starts the process that makes a report. It is no part of the
// command line for people.
const renderVerb = "render-report"

// The limits of the process that makes a report.
const (
	renderMemory = 192 << 20 // bytes above which the Go runtime collects garbage more often
	renderTime   = 90 * time.Second
)

// renderCommand returns the process that makes the report of the records in dir.
func renderCommand(configFile string) func(ctx context.Context, dir string) *exec.Cmd {
	return func(ctx context.Context, dir string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "--config", configFile, renderVerb, dir)
		cmd.Args[0] = "rt-site"
		cmd.Env = []string{"TZ=UTC", "TMPDIR=" + dir}
		return cmd
	}
}

// isRender returns the configuration and the directory of the command line of renderCommand.
func isRender(args []string) (configFile, dir string, is bool) {
	is = len(args) == 4 && args[0] == "--config" && args[2] == renderVerb
	if !is {
		return "", "", false
	}
	return args[1], args[3], true
}

// render writes the report of the records in a directory.
func render(ctx context.Context, configFile, dir string, stdout io.Writer) error {
	debug.SetMemoryLimit(renderMemory)
	time.AfterFunc(renderTime, func() { os.Exit(cli.ExitError) }) // the service may have been killed
	cfg, err := config.Load(configFile)
	if err != nil {
		return err
	}
	form, records, err := sitereport.Records(dir)
	if err != nil {
		return err
	}
	if form == site.FormParquet {
		return renderParquet(ctx, dir, records, figuresOfOthers(cfg.Energy), stdout)
	}
	job, err := sitereport.Load(ctx, dir, figuresOfOthers(cfg.Energy))
	if err != nil {
		return err
	}
	if job.Form == site.FormJSON {
		return cli.PrintJSON(stdout, job.Summaries())
	}
	page := html.Page{Name: job.Name, Jobs: job.Jobs, Array: job.Array, Zone: time.UTC}
	for _, link := range job.Links {
		page.Links = append(page.Links, html.Link(link))
	}
	for _, run := range job.Runs {
		path := run.Path
		if job.NoPlots {
			path = ""
		}
		shown, err := html.ReadRun(ctx, path, run.Summary, time.UTC)
		if err != nil {
			return fmt.Errorf("the run on node %s: %w", run.Summary.Run.Node, err)
		}
		page.Runs = append(page.Runs, shown)
	}
	return cli.Buffered(stdout, func(w io.Writer) error { return html.Write(w, &page) })
}

// figuresOfOthers adds to a summary the figures of other programs, and the shares of energy.
func figuresOfOthers(energy config.Energy) sitereport.Add {
	return func(ctx context.Context, r *spool.Reader, s *rtreport.Summary) error {
		var failed [2]error
		s.GemPBA, failed[0] = gempba.Figures(ctx, r)
		s.Others, failed[1] = powerapi.Sensors(ctx, r)
		s.ShareEnergy(energy.IdleWatts, energy.CO2e)
		return damaged(errors.Join(failed[:]...))
	}
}

// renderParquet writes the records in a directory as a ZIP file with the files of a lake that has only these runs.
func renderParquet(ctx context.Context, dir string, records []string, add sitereport.Add, stdout io.Writer) (err error) {
	var runs []site.Changed
	var problems []error
	problem := func(name string, err error) {
		problems = append(problems, fmt.Errorf("the run in %s is left out: %w", name, err))
	}
	for _, name := range records {
		run, err := runOfFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			runs = append(runs, run)
		case sitereport.IsUnreadable(err):
			problem(name, err)
		default:
			return err
		}
	}
	out := filepath.Join(dir, "lake")
	store, err := objects.OpenGroupDir(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_, err = lake.Export(ctx, lake.Config{
		Store: store, Report: reflect.TypeFor[rtreport.Summary](), Temp: dir, Check: func(context.Context) error { return nil },
		Decode: func(ctx context.Context, name string) (*lake.DecodedRun, error) {
			record, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			defer record.Close()
			return decodeRecord(ctx, dir, add, record)
		},
		Problem: problem,
	}, runs)
	if err != nil {
		return err
	}
	if len(problems) >= len(records) {
		return fmt.Errorf("%w: no record of the job can be read: %w", site.ErrDamaged, errors.Join(problems...))
	}
	return zipFiles(stdout, out, errors.Join(problems...))
}

// runOfFile returns the run of a record in a file, with the name of the file as its id.
func runOfFile(path string) (c site.Changed, err error) {
	record, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer record.Close()
	run, err := runOf(record)
	return changedRun(filepath.Base(path), &run), err
}

// zipFiles writes the Parquet files below a directory. They are compressed already. The file unreadable.txt says which
// runs are left out.
func zipFiles(w io.Writer, dir string, leftOut error) error {
	z := zip.NewWriter(w)
	if leftOut != nil {
		to, err := z.Create("unreadable.txt")
		if err == nil {
			_, err = fmt.Fprintln(to, printable.Lines(leftOut.Error()))
		}
		if err != nil {
			return err
		}
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		isOther := err == nil && (entry.IsDir() || filepath.Ext(path) != ".parquet")
		if err != nil || isOther {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return err
		}
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, from)
		return errors.Join(err, from.Close())
	})
	return errors.Join(err, z.Close())
}
