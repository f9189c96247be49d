package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pqfile "github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go/table"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// recordOf returns the run of a user, its registration and its complete record.
func recordOf(t *testing.T, user string, lines ...rt.ForeignReport) (run rt.Run, registration, record []byte) {
	t.Helper()
	run, list := runtest.Job()
	run.User, run.Group, run.UID, run.WorkDir = user, user+"-group", rt.Some[uint64](47114711), "/home/"+user+"/secret"
	run.Command = []string{"/home/" + user + "/secret/run.sh"}
	slurm.Describe(&run)
	slurm.SetJobName(&run, "deep_fold", true)
	w, err := spool.Create(t.TempDir(), run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Procs = []rt.ProcessReading{{PID: 9, Start: 1, Comm: user + "-x"}}
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range lines {
		if err := w.Record(line); err != nil {
			t.Fatal(err)
		}
	}
	w.Event(rt.Event{Kind: "tracker", Name: "import", Status: "ok", Detail: "from /home/" + user + "/secret/x"})
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: run.Start.Add(time.Hour)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, r, nil); err != nil {
		t.Fatal(err)
	}
	run = r.Run()
	registration, err = json.Marshal(sentinel.Registration(upload.DialectSpec, run, r.Host()))
	if err != nil {
		t.Fatal(err)
	}
	return run, registration, b.Bytes()
}

// putRun stores a finished run with its record.
func putRun(t *testing.T, st *sitestores.Stores, id, user string, lines ...rt.ForeignReport) {
	t.Helper()
	run, registration, record := recordOf(t, user, lines...)
	if err := st.Registry.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now(), Metadata: registration}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(record)
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: hex.EncodeToString(sum[:]), Created: time.Now()}
	if _, err := st.Registry.Runs.PutObject(t.Context(), o, record, &run); err != nil {
		t.Fatal(err)
	}
	summary, err := json.Marshal(map[string]any{"run": map[string]any{"user": user, "meta": map[string]string{"job_name": "deep_fold"}}})
	if err != nil {
		t.Fatal(err)
	}
	f := site.Finish{RunStatus: "finished", DataSource: "s3", RecordSum: o.SHA256, Summary: summary}
	if _, err := st.Registry.Runs.Finish(t.Context(), id, f, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// tableRows reads a table of the lake of a site as an engine does.
func tableRows[T any](t *testing.T, file, name string) (all []T) {
	t.Helper()
	st := siteStores(t, file)
	defer st.Close()
	db, isPostgres, err := st.Registry.OpenDatabase()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := lake.SQLCatalog(db, isPostgres, nil)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := c.LoadTable(t.Context(), table.Identifier{"rt", name})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.CurrentSnapshot() == nil {
		return nil
	}
	_, batches, err := loaded.Scan().ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		text, err := b.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var list []T
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
		b.Release()
	}
	return all
}

// fileRows is the number of rows of a Parquet file.
func fileRows(t *testing.T, path string) int64 {
	t.Helper()
	f, err := pqfile.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.NumRows()
}

// siteStores opens the stores of a site.
func siteStores(t *testing.T, file string) *sitestores.Stores {
	t.Helper()
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sitestores.Open(t.Context(), cfg.Serve, nil)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// removeRun removes a run as rt-site forget does.
func removeRun(t *testing.T, file, id string) {
	t.Helper()
	st := siteStores(t, file)
	if err := errors.Join(st.Registry.Removals.RemoveRun(context.Background(), id), st.Close()); err != nil {
		t.Fatal(err)
	}
}

// lakeSite makes a site with a lake and runs of these users. It returns the configuration file and the lake.
func lakeSite(t *testing.T, users ...string) (configFile, dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "lake")
	key := filepath.Join(top, "key")
	if err := os.WriteFile(key, bytes.Repeat([]byte{'k'}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	configFile = filepath.Join(top, "rt.toml")
	text := fmt.Sprintf("[serve]\ndir = %q\nlake = %q\n[privacy]\nkey_file = %q\n", filepath.Join(top, "site"), dir, key)
	if err := os.WriteFile(configFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(configFile)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sitestores.Open(t.Context(), cfg.Serve, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.New(t.Context(), api.Config{Registry: st.Registry, Objects: st.Objects, Tokens: []api.Token{{}}})
	if err == nil {
		err = server.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		putRun(t, st, idOfRun(i), user)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return configFile, dir
}

func idOfRun(i int) string { return fmt.Sprintf("20260301t100000-%026d", i) }

// lakeCall calls the program, which must end with a status, and returns its output.
func lakeCall(t *testing.T, status int, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if got := frame.Run(t.Context(), args, &stdout, &stderr); got != status {
		t.Fatalf("rt-lake %q: status %d, not %d; %s%s", args, got, status, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}
