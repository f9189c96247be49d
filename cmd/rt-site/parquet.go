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

	"github.com/resource-tracker/rt/internal/sitereport"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
)

// renderParquet writes the records in a directory as a ZIP file with the files of a lake that has only these runs.
func renderParquet(ctx context.Context, dir string, records []string, add sitereport.Add, stdout io.Writer) (err error) {
	var runs []site.Changed
	for _, name := range records {
		run, err := runOfFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	out := filepath.Join(dir, "lake")
	store, err := objects.OpenGroupDir(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var problems []error
	_, err = lake.Export(ctx, lake.Options{
		Store: store, Report: reflect.TypeFor[rtreport.Summary](), Temp: dir, Check: func(context.Context) error { return nil },
		Decode: func(ctx context.Context, name string) (*lake.Run, error) {
			record, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			defer record.Close()
			return decodeRecord(ctx, dir, add, record)
		},
		Problem: func(name string, err error) { problems = append(problems, fmt.Errorf("the run in %s: %w", name, err)) },
	}, runs)
	if err := errors.Join(append(problems, err)...); err != nil {
		return err
	}
	return zipFiles(stdout, out)
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

// zipFiles writes the Parquet files below a directory. They are compressed already.
func zipFiles(w io.Writer, dir string) error {
	z := zip.NewWriter(w)
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
