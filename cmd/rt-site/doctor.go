package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/doctor"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/registry"
)

// errUnusable means that doctor found a failure, which its output describes.
var errUnusable = errors.New("the database or the object store cannot be used")

// examineLimit is the longest time that doctor takes.
const examineLimit = 30 * time.Second

// examine checks the stores of the site and prints the checks.
func examine(ctx context.Context, o *options, stdout, _ io.Writer) error {
	s, err := o.actAsService()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	checks := examineStores(ctx, s)
	if o.json {
		err = cli.PrintJSON(stdout, checks)
	} else {
		err = doctor.Print(stdout, []doctor.Role{doctor.Receiver}, checks, true)
	}
	if err == nil && doctor.Worst(checks) == doctor.Failure {
		err = errUnusable
	}
	return err
}

const (
	databaseCheck = "serve.database"
	objectsCheck  = "serve.objects"
)

// examineStores opens the database and the object store as serve does, but creates and migrates nothing.
func examineStores(ctx context.Context, s config.Serve) []doctor.Check {
	const meaning = "the service does not start, or refuses runs"
	err := sitestores.CheckDir(s)
	if errors.Is(err, sitestores.ErrOtherUser) {
		return []doctor.Check{{Name: databaseCheck, Status: doctor.Unknown, Finding: "not checked: " + err.Error(), Fix: "rt-site doctor as that user or as root"}}
	}
	if err != nil {
		return []doctor.Check{{Name: databaseCheck, Status: doctor.Failure, Finding: err.Error(), Meaning: meaning, Fix: "serve.dir in rt.toml, then systemctl start rt-site, which creates the database"}}
	}
	r, err := sitestores.OpenRegistry(ctx, s, registry.Config{Existing: true})
	if err == nil {
		_, _, err = r.Runs.Usage(ctx, "")
	}
	if err != nil {
		return []doctor.Check{{Name: databaseCheck, Status: doctor.Failure, Finding: err.Error(), Meaning: meaning, Fix: "serve.database in rt.toml and PGPASSWORD in the environment of the service; systemctl status postgresql"}}
	}
	defer r.Close() // nothing was written
	kind := "SQLite"
	if s.Database != "" {
		kind = "PostgreSQL"
	}
	checks := []doctor.Check{{Name: databaseCheck, Status: doctor.OK, Finding: kind + " answers, with the tables of this version; " + r.WrittenBy(ctx) + " has opened it last"}}

	st := &sitestores.Stores{}
	defer st.Close() // nothing was written
	objects, err := st.OpenObjects(ctx, s)
	if err == nil {
		err = api.CheckObjects(ctx, r, objects)
	}
	if err == nil {
		err = tryObjects(ctx, objects)
	}
	if err != nil {
		fix := "chown, chmod or room for " + s.Dir
		if s.Objects != "" {
			fix = "serve.objects and serve.objects_endpoint in rt.toml, and the credentials in serve.objects_keys or in the environment of the service"
		}
		return append(checks, doctor.Check{Name: objectsCheck, Status: doctor.Failure, Finding: err.Error(), Meaning: meaning, Fix: fix})
	}
	return append(checks, doctor.Check{Name: objectsCheck, Status: doctor.OK, Finding: "an object can be written, read and removed"})
}

// tryObjects writes, reads and removes an object. If this process is killed, the service removes the object.
func tryObjects(ctx context.Context, store site.ObjectStore) (err error) {
	host, _ := os.Hostname() // only for the operator of a store
	text := []byte("rt-site doctor on " + host + "\n")
	name := "doctor/" + rand.Text()
	if err := store.Put(ctx, name, int64(len(text)), bytes.NewReader(text)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Delete(context.WithoutCancel(ctx), name)) }()
	f, err := store.Get(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close() // it is read
	found, err := io.ReadAll(f)
	if err == nil && !bytes.Equal(found, text) {
		err = fmt.Errorf("object %s: %d bytes were read, not those that were written", name, len(found))
	}
	return err
}
