//go:build e2e && s3

package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/e2e/random"
	rtsite "github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// central are real PostgreSQL and MinIO servers, which run without privileges.
type central struct {
	database *postgres.Server
	objects  *minio.Server
}

func newCentral(t *testing.T) *central {
	t.Helper()
	database, err := postgres.Start() // it syncs
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := minio.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := store.MakeBucket(t.Context(), "metrics"); err != nil {
		t.Fatal(err)
	}
	return &central{database, store}
}

// readToken is the token of a reader of all runs.
const readToken = "the-token-of-a-reader-of-these-tests"

// use configures the receivers of a site to store in c, or without it in files of the site.
func (c *central) use(t *testing.T, s *site) {
	t.Helper()
	if err := os.WriteFile(s.path("readers"), []byte(readToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := []string{"[serve]", `token_rate = "0B"`, fmt.Sprintf("read_token_file = %q", s.path("readers"))}
	if c != nil {
		s.env = []string{"AWS_ACCESS_KEY_ID=" + minio.AccessKey, "AWS_SECRET_ACCESS_KEY=" + minio.SecretKey}
		keys = append(keys, fmt.Sprintf("database = %q", c.database.URL("postgres")), `objects = "s3://metrics/site"`,
			fmt.Sprintf("objects_endpoint = %q", c.objects.URL))
	}
	s.configure(t, "", keys...)
}

// verify runs rt-site verify: it finds nothing wrong.
func (s *site) verify(t *testing.T) {
	t.Helper()
	out, err := s.command("rt-site", "verify", "--dir", s.path("received")).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(" 0 problems")) {
		t.Errorf("rt-site verify: %v\n%s", err, out)
	}
}

// stores are the registry and the object store of a site, opened by the test.
type stores struct {
	registry *registry.Registry
	objects  store
}

type store interface {
	Get(ctx context.Context, name string) (io.ReadCloser, error)
}

// openStores opens the stores of receivers: those in c, or without it the files of the site.
func openStores(t *testing.T, s *site, c *central) *stores {
	t.Helper()
	dsn := s.path("received/registry.db")
	if c != nil {
		dsn = c.database.URL("postgres")
	}
	r, err := registry.Open(t.Context(), dsn, registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	closers := []io.Closer{r}
	t.Cleanup(func() {
		for _, c := range closers {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	if c != nil {
		o, err := objects.NewS3(objects.S3Config{Location: "s3://metrics/site", Endpoint: c.objects.URL, AccessKey: minio.AccessKey, SecretKey: minio.SecretKey})
		if err != nil {
			t.Fatal(err)
		}
		return &stores{r, o}
	}
	o, err := objects.OpenDir(s.path("received/objects"))
	if err != nil {
		t.Fatal(err)
	}
	closers = append(closers, o)
	return &stores{r, o}
}

// body returns the bytes of an object.
func (st *stores) body(t *testing.T, o rtsite.Object) []byte {
	t.Helper()
	if o.Stored == "" {
		body, err := st.registry.Objects.Body(t.Context(), o.RunID, o.Name)
		if err != nil {
			t.Error(err)
		}
		return body
	}
	from, err := st.objects.Get(t.Context(), o.Stored)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer from.Close()
	body, err := io.ReadAll(from)
	if err != nil {
		t.Error(err)
	}
	return body
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// check verifies that the stores have everything that the journal has, with the same bytes. It returns
// the number of objects that were large enough for the object store.
func (st *stores) check(t *testing.T, j *journal) (large int) {
	t.Helper()
	stored := map[string]string{}
	for id := range j.runs {
		run, err := st.registry.Runs.Get(t.Context(), id)
		if err != nil {
			t.Errorf("its registration was acknowledged: %v", err)
			continue
		}
		all, err := st.registry.Objects.OfRun(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		for _, o := range all {
			body := st.body(t, o)
			stored["/rt/runs/"+id+"/"+o.Name] = hashOf(body)
			if got := hashOf(body); got != o.SHA256 || int64(len(body)) != o.Bytes {
				t.Errorf("%s of run %s: %d bytes with SHA-256 %s are stored, the registry has %d and %s", o.Name, id, len(body), got, o.Bytes, o.SHA256)
			}
			if o.Stored != "" {
				large++
			}
		}
		record, isFinished := j.finishes[id]
		switch {
		case isFinished && run.Finish == nil:
			t.Errorf("the finish of run %s was acknowledged and is lost", id)
		case isFinished && run.Finish.RecordSum != record:
			t.Errorf("run %s is finished with the record %s, acknowledged was %s", id, run.Finish.RecordSum, record)
		}
	}
	for path, sum := range j.objects {
		if stored[path] != sum {
			t.Errorf("%s with SHA-256 %s was acknowledged; stored is %q", path, sum, stored[path])
		}
	}
	return large
}

// jobs returns the number of jobs that are listed. It is an error if one is listed twice.
func (st *stores) jobs(t *testing.T) int {
	t.Helper()
	jobs := map[uint64]bool{}
	for after := ""; ; {
		page, next, err := st.registry.Jobs.List(t.Context(), rtsite.Filter{}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page {
			if jobs[job.JobID] {
				t.Errorf("job %d is listed twice", job.JobID)
			}
			jobs[job.JobID] = true
		}
		if after = next; after == "" {
			return len(jobs)
		}
	}
}

// sameRecords checks that the receiver has the record of each spooled run, and lists its job once.
func (st *stores) sameRecords(t *testing.T, r *receiver, sent []spooled) {
	t.Helper()
	byID := r.runs(t)
	if n := st.jobs(t); n != len(sent) {
		t.Errorf("%d jobs are listed, %d were sent", n, len(sent))
	}
	for _, s := range sent {
		want := hashOf(recordOf(t, s.path))
		records := 0
		for _, run := range byID[s.externalID] {
			if run.Status == "running" {
				continue
			}
			if records++; run.Record.SHA256 != want {
				t.Errorf("%s: the record of %s has the SHA-256 %q, that of the spool file is %s", s.externalID, run.ID, run.Record.SHA256, want)
			}
		}
		if records != 1 {
			t.Errorf("%s has %d records", s.externalID, records)
		}
	}
}

// recordOf makes the record of a spool file.
func recordOf(t *testing.T, path string) []byte {
	t.Helper()
	r, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, r, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// largeRun is a number of snapshots with more rows than fit into an object of the registry.
const largeRun = 2500

// TestSiteStores delivers the same spool to a receiver with SQLite and a directory, and to one with PostgreSQL and
// MinIO. Both store and return the same.
func TestSiteStores(t *testing.T) {
	from := random.Seed(t)
	c := newCentral(t)
	answers := map[string]map[string]any{}
	for _, name := range []string{"files", "central"} {
		random := rand.New(rand.NewPCG(from, 1))
		s := newSite(t)
		var opened *central
		if name == "central" {
			opened = c
		}
		opened.use(t, s)
		r := serve(t, s)
		b := newBalancer(t, r)
		var sent []spooled
		for job := range uint64(16) {
			sent = append(sent, put(t, s.path("spool"), job+1, random.IntN(60), random))
		}
		sent = append(sent, put(t, s.path("spool"), 100, largeRun, random), put(t, s.path("spool"), 101, largeRun, random))
		node := s.another(t)
		drain := node.rtSpool("drain")
		node.spoolOf(t, s.path("spool"), b.URL)
		if out, err := drain.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("%s: drain: %v\n%s", name, err, out)
		}
		s.verify(t)
		arrived(t, r, nil, sent)
		st := openStores(t, s, opened)
		if large := st.check(t, &b.journal); large < 2 {
			t.Errorf("%s: only %d objects are in the object store", name, large)
		}
		st.sameRecords(t, r, sent)
		answers[name] = answersOf(t, r)
		for _, one := range sent {
			answer, _ := answers[name][one.externalID].(map[string]any)
			if answer["record bytes"] != string(recordOf(t, one.path)) {
				t.Errorf("%s: a reader gets another record of %s than the spool file has", name, one.externalID)
			}
		}
		if len(answers[name]) != len(sent) || len(b.finishes) != len(sent) {
			t.Errorf("%s: %d runs, %d finishes of %d", name, len(answers[name]), len(b.finishes), len(sent))
		}
	}
	if !reflect.DeepEqual(answers["files"], answers["central"]) {
		t.Errorf("the answers differ: %v\n%v", answers["files"], answers["central"])
	}
}

// answersOf returns what a receiver answers about its runs by external id, without ids and times of the
// delivery.
func answersOf(t *testing.T, r *receiver) map[string]any {
	t.Helper()
	answers := map[string]any{}
	for external, runs := range r.runs(t) {
		for _, run := range runs {
			var answer map[string]any
			if err := json.Unmarshal(bytes.ReplaceAll(r.get(t, "/runs/"+run.ID), []byte(run.ID), []byte("ID")), &answer); err != nil {
				t.Fatal(err)
			}
			delete(answer, "created")
			delete(answer, "finished")
			answer["csv"] = string(r.get(t, "/runs/"+run.ID+"/data"))
			if got := string(r.getAs(t, readToken, "/v1/runs/"+run.ID+"/csv")); got != answer["csv"] {
				t.Errorf("%s: a reader gets other rows: %s", external, firstDifference(got, answer["csv"].(string)))
			}
			answer["record bytes"] = string(r.getAs(t, readToken, "/v1/runs/"+run.ID+"/record"))
			answers[external] = answer
		}
	}
	return answers
}
