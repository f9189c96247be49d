package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/resource-tracker/rt/internal/printable"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
	sitereport "github.com/resource-tracker/rt/site/report"
)

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
