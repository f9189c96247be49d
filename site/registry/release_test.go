package registry

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// release makes testdata/0.2.0.db.gz again. After that release its files stay as they are.
var release = flag.Bool("release", false, "write the registry of 0.2.0 again")

const releasedRegistry = "testdata/0.2.0.db.gz"

// writeRelease makes a registry with two jobs of two runs each.
func writeRelease(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registry.db")
	r, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for n, id := range []uint64{41, 41, 42, 42} {
		record := job(id, n/2)
		record.Node = []string{"n1", "n2"}[n%2]
		putRun(t, r, n, record)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(releasedRegistry, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/0.2.0.json", servedText(t, path), 0o644); err != nil {
		t.Fatal(err)
	}
}

// servedText opens a registry and returns its jobs, with their runs, as JSON.
func servedText(t *testing.T, path string) []byte {
	t.Helper()
	r, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	jobs, _, err := r.Jobs.List(t.Context(), site.Filter{}, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	type served struct {
		Job  site.JobRow
		Runs []rt.Run
	}
	var list []served
	for _, j := range jobs {
		one := served{Job: j}
		for _, run := range jobRuns(t, r, j, nil) {
			if run.Record == nil {
				t.Fatalf("run %s has no record", run.ID)
			}
			one.Runs = append(one.Runs, *run.Record)
		}
		list = append(list, one)
	}
	text, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// The registry of each release is opened, and its jobs and runs are served as they were.
func TestRegistryOfARelease(t *testing.T) {
	if *release {
		writeRelease(t)
	}
	f, err := os.Open(releasedRegistry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "registry.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/0.2.0.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := servedText(t, path); string(got) != string(want) {
		t.Errorf("the registry of 0.2.0 has\n%s\nnot\n%s", got, want)
	}
}
