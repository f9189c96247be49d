//go:build lake

package lake

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// arrayJob is the id of the array whose tasks are the runs of the tests: rt-spool report shows all of them at once.
const arrayJob = 500_000

// testSite is a site with a lake.
type testSite struct {
	dir, config, lake, spool string
	registry                 *registry.Registry
	files                    map[string]string // properties of iceberg-go for the files of the lake
}

// newTestSite makes a site in a directory, with its lake in a directory or a bucket.
func newTestSite(t *testing.T, lake, more string) *testSite {
	t.Helper()
	return newTestSiteIn(t, "", nil, lake, more)
}

// newTestSiteIn makes a site with its registry in a PostgreSQL and its objects in siteObjects; empty: in a directory.
func newTestSiteIn(t *testing.T, database string, store site.ObjectStore, lake, more string) *testSite {
	t.Helper()
	top := t.TempDir()
	s := &testSite{dir: filepath.Join(top, "site"), config: filepath.Join(top, "rt.toml"), lake: lake, spool: filepath.Join(top, "spool")}
	text := fmt.Sprintf("[spool]\ndir = %q\n[serve]\ndir = %q\nlake = %q\n%s", s.spool, s.dir, lake, more)
	if database != "" {
		text += fmt.Sprintf("database = %q\nobjects = %q\n", database, siteObjects)
	}
	for _, err := range []error{os.WriteFile(s.config, []byte(text), 0o600), os.Mkdir(s.spool, 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.files = map[string]string{
		"s3.access-key-id": os.Getenv("AWS_ACCESS_KEY_ID"), "s3.secret-access-key": os.Getenv("AWS_SECRET_ACCESS_KEY"), "s3.region": os.Getenv("AWS_REGION"),
		"s3.endpoint": strings.Trim(strings.TrimPrefix(more, "objects_endpoint = "), "\"\n"),
	}
	var err error
	s.registry, err = registry.Open(t.Context(), cmp.Or(database, filepath.Join(s.dir, "registry.db")), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		dir, err := objects.OpenDir(filepath.Join(s.dir, "objects"))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		store = dir
	}
	server, err := api.New(t.Context(), api.Config{Registry: s.registry, Objects: store, Tokens: []api.Token{{}}})
	if err == nil {
		err = server.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.registry.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sampleRun is one of the runs of the tests, with a number of readings. Each has figures of its own.
func sampleRun(n, readings int) (rt.Run, []rt.Snapshot) {
	run, list := runtest.Job()
	u := rt.Some[uint64]
	started := run.Start.Add(time.Duration(n) * 7 * time.Minute)
	shift := started.Sub(run.Start).Nanoseconds()
	run.JobID, run.ArrayJobID, run.ArrayTaskID = u(uint64(arrayJob+1+n)), u(arrayJob), u(uint64(n))
	run.Start, run.JobStart, run.JobEndLimit = started, started, started.Add(4*time.Hour)
	run.Cluster, run.Scheduler, run.Node = "c1", "slurm", fmt.Sprintf("n%d", n%16)
	run.User, run.Account, run.Partition = fmt.Sprintf("user%d", n%7), fmt.Sprintf("project%d", n%3), []string{"short", "long", "gpu"}[n%3]
	if n%3 == 2 {
		run.GPUs = "1"
	}
	run.AllocCPUs, run.AllocMem, run.NumNodes = u(uint64(1+n%8)), u(uint64(1+n%5)<<30), u(1)
	run.Meta.JobName, run.Meta.Tags = fmt.Sprintf("job-%d", n%11), map[string]string{"release": "a"}
	list = list[:readings]
	for i := range list {
		s := &list[i]
		s.Wall += shift
		if s.Job.Phase != rt.JobPresent {
			continue
		}
		s.Node.MemTotal, s.Node.MemFree = u(64<<30), u(uint64(30+n%9)<<30)
		s.Job.MemLimit, s.Job.MemPeak = u(uint64(1+n%5)<<30), u(uint64(100+n*3+i)<<20)
		if n%4 != 0 {
			s.Job.CPUUsage = rt.Some(uint64(i) * uint64(1_000_000+n*1000))
			s.Job.IOReadBytes, s.Job.IOWriteBytes = u(uint64(i*4096*(n+1))), u(uint64(i*512*(n+1)))
			s.Job.CPUStallSome, s.Job.MemStallSome = u(uint64(i*1000+n)), u(uint64(i*10))
			s.Job.PageFaults, s.Job.MajorFaults, s.Job.Threads = u(uint64(i*100+n)), u(uint64(i)), u(uint64(1+n%5))
		}
		if n%3 == 1 {
			s.Steps = []rt.StepReading{{Step: "batch", CPUUsage: u(uint64(i) * 900_000), MemCurrent: u(uint64(50+n) << 20), Pids: u(2)}}
			s.Procs = []rt.ProcessReading{{PID: uint64(100 + n), Start: 5, Comm: "solve", Step: "batch", UserTicks: u(uint64(i * 90)), RSS: u(uint64(40+n) << 20), Threads: u(3)}}
			s.Energy = []rt.EnergyReading{{Source: "powercap", Domain: "package-0", Kind: rt.EnergyPackage, Socket: u(0), Energy: u(uint64(i) * uint64(1e8+n))}}
		}
		if n%3 != 2 {
			s.GPUs, s.GPU = nil, rt.GPUUse{}
		}
	}
	list[len(list)-1].Reason = rt.ReasonLast
	return run, list
}

// put delivers a run to the site. Without an end it is a run that is still tracked.
func (s *testSite) put(t *testing.T, n, readings int, isEnded bool) {
	t.Helper()
	run, list := sampleRun(n, readings)
	dir := s.spool
	if !isEnded {
		dir = t.TempDir()
	}
	if err := os.RemoveAll(filepath.Join(dir, run.FileStem()+".db")); err != nil {
		t.Fatal(err)
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: run.Node, VCPUs: rt.Some[uint64](16)}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	end := rt.Exit{Code: rt.Some(int64(n % 2)), Outcome: []rt.Outcome{rt.OutcomeFinished, rt.OutcomeFailed}[n%2], Source: "epilog", Time: run.Start.Add(time.Duration(readings) * 10 * time.Second)}
	if isEnded {
		run.Apply(end)
		err = w.End(run)
	} else {
		err = w.Close()
	}
	if err != nil {
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
	s.deliver(t, n, r.Run(), b.Bytes(), nil)
}

// deliver stores the record of a run, in the registry or in a store of objects.
func (s *testSite) deliver(t *testing.T, n int, run rt.Run, record []byte, store *objects.Dir) {
	t.Helper()
	ctx, id := t.Context(), fmt.Sprintf("20260301t100000-%026d", n)
	_, err := s.registry.Runs.Get(ctx, id)
	if errors.Is(err, site.ErrNotFound) {
		err = s.registry.Runs.Create(ctx, site.StoredRun{ID: id, Owner: "o", Created: time.Now(), Metadata: json.RawMessage("{}")})
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(record)
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: hex.EncodeToString(sum[:]), Created: time.Now(), Signed: time.Now()}
	if store != nil {
		o.Stored = fmt.Sprintf("lake/%d", n)
		if err := store.Put(ctx, o.Stored, o.Bytes, bytes.NewReader(record)); err != nil {
			t.Fatal(err)
		}
		record = nil
	}
	if _, err := s.registry.Runs.PutObject(ctx, o, record, &run); err != nil {
		t.Fatal(err)
	}
}

// program returns a command with a program of RT_BIN.
func (s *testSite) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("RT_BIN"), name), append([]string{"--config", s.config}, args...)...)
	cmd.Env = append(os.Environ(), "TZ=UTC", "TMPDIR="+filepath.Dir(s.config)) // what a killed writer leaves goes with the test
	return cmd
}

// output runs a program, which must succeed.
func output(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", cmd.Args, err, out, stderr.String())
	}
	return out
}
