//go:build lake

package lake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/e2e/postgres"
	"github.com/resource-tracker/rt/site"
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
	dir := filepath.Join(t.TempDir(), "lake")
	s := newTestSite(t, dir, "")
	store, err := objects.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s.killAtRandom(t, store)
}

// The same in a real MinIO.
func TestKilledWriterS3(t *testing.T) {
	open, endpoint := newBucket(t)
	newTestSite(t, bucket, endpoint).killAtRandom(t, open(bucket))
}

// The same with the registry in a real PostgreSQL, and the objects in the same MinIO.
func TestKilledWriterPostgresS3(t *testing.T) {
	open, endpoint := newBucket(t)
	newTestSiteIn(t, newDatabase(t).URL("postgres"), open(siteObjects), bucket, endpoint).killAtRandom(t, open(bucket))
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
	store, database := open(bucket), newDatabase(t)
	s := newTestSiteIn(t, database.URL("postgres"), open(siteObjects), bucket, endpoint)
	expected := map[string]int64{}
	lost, rounds := 0, max(kills()/4, 1)
	for n := range rounds {
		s.putSome(t, n*3, 3, expected)
		first := s.program(t.Context(), "rt-site", "lake")
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
		output(t, s.program(t.Context(), "rt-site", "lake"))
		signal(syscall.SIGCONT)
		if err := first.Wait(); err != nil {
			lost++
		}
		readOnce(t, store)
	}
	t.Logf("%d of %d writers were stopped while they wrote", lost, rounds)
	output(t, s.program(t.Context(), "rt-site", "lake"))
	compare(t, readOnce(t, store), expected)
}

// putSome delivers runs, with a new number of readings each.
func (s *testSite) putSome(t *testing.T, from, runs int, expected map[string]int64) {
	t.Helper()
	for n := from; n < from+runs; n++ {
		readings := 5 + rand.IntN(60)
		_, isAgain := expected[strconv.Itoa(array+1+n)]
		s.put(t, n, readings, isAgain)
		expected[strconv.Itoa(array+1+n)] = int64(readings)
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
func (s *testSite) killAtRandom(t *testing.T, store site.ObjectStore) {
	const runs = 200
	expected := map[string]int64{} // samples by job
	next, killed := 0, 0
	for killed < kills() {
		for range rand.IntN(5) {
			s.putSome(t, next%runs, 1, expected)
			next++
		}
		cmd := s.program(t.Context(), "rt-site", "lake")
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
		readOnce(t, store)
	}
	t.Logf("%d kills, %d deliveries", killed, next)
	for isDone := false; !isDone; {
		out, err := s.program(t.Context(), "rt-site", "lake").CombinedOutput()
		isDone = err == nil
		if err != nil && !isLocked(string(out)) {
			t.Fatalf("%v: %s", err, out)
		}
	}
	compare(t, readOnce(t, store), expected)
}

// isLocked reports whether a writer did not start because PostgreSQL still has the connection of one that was killed.
func isLocked(message string) bool { return strings.Contains(message, "another process has the lock") }

type runRow struct {
	Name    string `parquet:"run_name"`
	JobID   int64  `parquet:"job_id"`
	Samples int64  `parquet:"samples"`
}

type sampleRow struct {
	Name  string `parquet:"run_name"`
	JobID int64  `parquet:"job_id"`
	Seq   int64  `parquet:"seq"`
}

// readOnce reads all files by their names, and checks that no run and no sample is there twice. It returns the number of
// samples by job.
func readOnce(t *testing.T, store site.ObjectStore) map[string]int64 {
	t.Helper()
	runs, samples, counts := map[string]int64{}, map[sampleRow]bool{}, map[string]int64{}
	for o, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(o.Name, ".parquet") {
			continue
		}
		content := read(t, store, o.Name)
		if strings.HasPrefix(o.Name, "runs/") {
			for _, r := range rows[runRow](t, o.Name, content) {
				if _, isTwice := runs[r.Name]; isTwice {
					t.Fatalf("run %s is there twice", r.Name)
				}
				runs[r.Name] = r.JobID
			}
			continue
		}
		for _, r := range rows[sampleRow](t, o.Name, content) {
			if samples[r] {
				t.Fatalf("sample %+v is there twice", r)
			}
			samples[r] = true
			counts[r.Name]++
		}
	}
	byJob := map[string]int64{}
	for name, job := range runs {
		byJob[strconv.FormatInt(job, 10)] = counts[name]
	}
	return byJob
}

func read(t *testing.T, store site.ObjectStore, name string) []byte {
	t.Helper()
	body, err := store.Get(context.WithoutCancel(t.Context()), name)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return content
}

func rows[T any](t *testing.T, name string, content []byte) []T {
	t.Helper()
	list, err := parquet.Read[T](bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}
