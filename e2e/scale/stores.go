package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/e2e/postgres"
)

// stores is where a receiver stores what it gets.
type stores struct {
	name string
	goal float64  // runs a second with 64 clients
	conf string   // of the section serve in rt.toml
	env  []string // added to the environment of the receiver
	end  func() error
}

// files are SQLite and a directory.
func files(context.Context) (stores, error) {
	return stores{name: "SQLite and a directory", goal: 1000, end: func() error { return nil }}, nil
}

// central are a new PostgreSQL and a new MinIO with their default settings, which sync.
func central(ctx context.Context) (s stores, err error) {
	database, err := postgres.Start()
	if err != nil {
		return s, err
	}
	objects, err := minio.Start()
	if err != nil {
		return s, errors.Join(err, database.Close())
	}
	s = stores{
		name: "PostgreSQL and MinIO", goal: 500,
		conf: fmt.Sprintf("database = %q\nobjects = \"s3://metrics/site\"\nobjects_endpoint = %q\n", database.URL("postgres"), objects.URL),
		env:  []string{"AWS_ACCESS_KEY_ID=" + minio.AccessKey, "AWS_SECRET_ACCESS_KEY=" + minio.SecretKey},
		end:  func() error { return errors.Join(objects.Close(), database.Close()) },
	}
	if err := objects.MakeBucket(ctx, "metrics"); err != nil {
		return s, errors.Join(err, s.end())
	}
	return s, nil
}
