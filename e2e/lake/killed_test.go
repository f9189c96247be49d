//go:build lake

package lake

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
)

// kills is how often a writer is killed.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("RT_KILLS")); err == nil {
		return n
	}
	return 100
}

// A writer that is killed at random leaves each run once, in a directory.
func TestKilledWriter(t *testing.T) {
	newTestSite(t, filepath.Join(t.TempDir(), "lake"), "").killAtRandom(t)
}

// The same in a real MinIO.
func TestKilledWriterS3(t *testing.T) {
	_, endpoint := newBucket(t)
	newTestSite(t, bucket, endpoint).killAtRandom(t)
}

// The same with the registry in a real PostgreSQL, and the objects in the same MinIO.
func TestKilledWriterPostgresS3(t *testing.T) {
	open, endpoint := newBucket(t)
	newTestSiteIn(t, newDatabase(t).URL("postgres"), open(siteObjects), bucket, endpoint).killAtRandom(t)
}

// The places of the lake and of the objects of a site in a bucket.
const (
	bucket      = "s3://lake/rt"
	siteObjects = "s3://lake/site"
)

// newBucket starts a MinIO with a bucket, and returns how to open a place there, and the lines of the configuration.
func newBucket(t *testing.T) (open func(location string) *objects.S3, lines string) {
	t.Helper()
	server, err := minio.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.MakeBucket(t.Context(), "lake"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", minio.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", minio.SecretKey)
	t.Setenv("AWS_REGION", minio.Region)
	open = func(location string) *objects.S3 {
		t.Helper()
		store, err := objects.NewS3(objects.S3Config{Location: location, Endpoint: server.URL, Region: minio.Region, AccessKey: minio.AccessKey, SecretKey: minio.SecretKey})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	return open, "objects_endpoint = \"" + server.URL + "\"\n"
}

// newDatabase starts a PostgreSQL.
func newDatabase(t *testing.T) *postgres.Server {
	t.Helper()
	server, err := postgres.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// endOfLock ends the connection with the lock, and those with a transaction that waits for the stopped writer.
const endOfLock = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND
	(state LIKE 'idle in transaction%' OR pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory'))`

// A writer that is stopped, loses its lock, and goes on after another one has written does not undo what that one has
// written.
func TestWriterLosesItsLock(t *testing.T) {
	open, endpoint := newBucket(t)
	database := newDatabase(t)
	s := newTestSiteIn(t, database.URL("postgres"), open(siteObjects), bucket, endpoint)
	expected := map[string]int64{}
	lost, rounds := 0, max(kills()/4, 1)
	for n := range rounds {
		s.putSome(t, n*3, 3, expected)
		first := s.program(t.Context(), "rt-lake")
		var message bytes.Buffer
		first.Stderr = &message
		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(300 * time.Millisecond))
		signal := func(sig syscall.Signal) {
			if err := first.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
		signal(syscall.SIGSTOP)
		if err := database.Exec(endOfLock); err != nil {
			t.Fatal(err)
		}
		s.putSome(t, n*3, 1, expected)
		output(t, s.program(t.Context(), "rt-lake"))
		signal(syscall.SIGCONT)
		if err := first.Wait(); err != nil {
			lost++
		}
		s.readOnce(t)
	}
	t.Logf("%d of %d writers were stopped while they wrote", lost, rounds)
	output(t, s.program(t.Context(), "rt-lake"))
	compare(t, s.readOnce(t), expected)
}

// putSome delivers runs, with a new number of readings each.
func (s *testSite) putSome(t *testing.T, from, runs int, expected map[string]int64) {
	t.Helper()
	for n := from; n < from+runs; n++ {
		readings := 5 + rand.IntN(60)
		_, isAgain := expected[strconv.Itoa(arrayJob+1+n)]
		s.put(t, n, readings, isAgain)
		expected[strconv.Itoa(arrayJob+1+n)] = int64(readings)
	}
}

// compare compares the number of samples by job.
func compare(t *testing.T, found, expected map[string]int64) {
	t.Helper()
	if len(found) != len(expected) {
		t.Errorf("%d runs, not %d", len(found), len(expected))
	}
	for job, want := range expected {
		if found[job] != want {
			t.Errorf("job %s has %d samples, not %d", job, found[job], want)
		}
	}
}

// killAtRandom delivers runs, and new versions of them, while writers are killed.
func (s *testSite) killAtRandom(t *testing.T) {
	t.Helper()
	const runs = 200
	expected := map[string]int64{} // samples by job
	next, killed := 0, 0
	for killed < kills() {
		for range rand.IntN(5) {
			s.putSome(t, next%runs, 1, expected)
			next++
		}
		cmd := s.program(t.Context(), "rt-lake")
		var message bytes.Buffer
		cmd.Stderr = &message
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(400 * time.Millisecond))
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		switch isExit := errors.As(err, &exit); {
		case isExit && exit.Sys().(syscall.WaitStatus).Signaled():
			killed++
		case err != nil && !isLocked(message.String()):
			t.Fatalf("%v: %s", err, message.String())
		}
		s.readOnce(t)
	}
	t.Logf("%d kills, %d deliveries", killed, next)
	for isDone := false; !isDone; {
		out, err := s.program(t.Context(), "rt-lake").CombinedOutput()
		isDone = err == nil
		if err != nil && !isLocked(string(out)) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	compare(t, s.readOnce(t), expected)
}

// isLocked reports whether a writer did not start because PostgreSQL still has the connection of one that was killed.
func isLocked(message string) bool { return strings.Contains(message, "another process has the lock") }

// readOnce reads the tables as an engine does, and checks that no run and no sample is there twice. It returns the number
// of samples by job.
func (s *testSite) readOnce(t *testing.T) map[string]int64 {
	t.Helper()
	db, isPostgres, err := s.registry.OpenDatabase()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := lake.SQLCatalog(db, isPostgres, s.files)
	if err != nil {
		t.Fatal(err)
	}
	jobs, counts, seen := map[string]int64{}, map[string]int64{}, map[string]bool{}
	s.each(t, c, "runs", func(b arrow.RecordBatch, i int, name string) {
		if _, isTwice := jobs[name]; isTwice {
			t.Fatalf("run %s is there twice", name)
		}
		jobs[name] = b.Column(b.Schema().FieldIndices("job_id")[0]).(*array.Int64).Value(i)
	})
	s.each(t, c, "samples", func(b arrow.RecordBatch, i int, name string) {
		k := fmt.Sprint(name, b.Column(b.Schema().FieldIndices("seq")[0]).(*array.Int64).Value(i))
		if seen[k] {
			t.Fatalf("sample %s is there twice", k)
		}
		seen[k] = true
		counts[name]++
	})
	byJob := map[string]int64{}
	for name, job := range jobs {
		byJob[strconv.FormatInt(job, 10)] = counts[name]
	}
	return byJob
}

// each passes the rows of a table, if it is there.
func (s *testSite) each(t *testing.T, c catalog.Catalog, name string, use func(b arrow.RecordBatch, i int, name string)) {
	t.Helper()
	loaded, err := c.LoadTable(t.Context(), table.Identifier{"rt", name})
	isNone := errors.Is(err, catalog.ErrNoSuchTable) || errors.Is(err, catalog.ErrNoSuchNamespace)
	if err != nil && !isNone {
		t.Fatal(err)
	}
	if isNone || loaded.CurrentSnapshot() == nil {
		return
	}
	fields := []string{"run_name", "job_id"}
	if name == "samples" {
		fields = append(fields, "seq")
	}
	_, batches, err := loaded.Scan(table.WithSelectedFields(fields...)).ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		names := b.Column(b.Schema().FieldIndices("run_name")[0]).(*array.String)
		for i := range int(b.NumRows()) {
			use(b, i, names.Value(i))
		}
		b.Release()
	}
}
