package spool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// copyVersion1 puts testdata/version1.db, which the code of version 1 wrote, into
// a directory of the test, and gives what that code read of some of its snapshots.
func copyVersion1(t *testing.T) (path string, want []*rt.Snapshot) {
	t.Helper()
	data, err := os.ReadFile("testdata/version1.db")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "job-12-n1-1.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/version1.json")
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path, want
}

// readsAsVersion1 asserts that a file says what it said to the code that wrote it.
func readsAsVersion1(t *testing.T, r *Reader, want []*rt.Snapshot) {
	t.Helper()
	for _, w := range want {
		for _, s := range collect(t, r, w.Seq, w.Seq) {
			same(t, w, s)
		}
	}
	if n, err := r.LastSeq(); n != 131 || err != nil {
		t.Errorf("%d snapshots, %v", n, err)
	}
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	if events, err := r.Events(); len(events) != 1 || err != nil {
		t.Errorf("events %v, %v", events, err)
	}
	if r.Run().User != "ada" || r.Host().HostName != "n1" {
		t.Errorf("run %+v, host %+v", r.Run(), r.Host())
	}
}

// The rates of a file do not change when it is migrated, nor does what is read.
func TestFilesOfVersion1AreMigrated(t *testing.T) {
	path, want := copyVersion1(t)
	c, err := openConn(path, map[string][]string{"mode": {"ro"}})
	if err != nil {
		t.Fatal(err)
	}
	const query = `SELECT seq, time, job_cores, job_mem_limit_mib, job_pids, node_cores, gpus_used, gpu_vram_used_mib,
		net_rx_bytes_per_s, job_read_bytes_per_s FROM sample`
	before := view(t, &Reader{db: c}, query)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, path)
	if r.version != version {
		t.Errorf("version %d", r.version)
	}
	readsAsVersion1(t, r, want)
	if diff := cmp.Diff(before, view(t, r, query)); diff != "" {
		t.Errorf("the view sample has changed:\n%s", diff)
	}
	readsAsVersion1(t, mustOpen(t, path), want)
}

// Where a file must not or cannot be changed, it is read as it is.
func TestFilesOfVersion1AreReadAsTheyAre(t *testing.T) {
	t.Run("live", func(t *testing.T) {
		path, want := copyVersion1(t)
		lock, err := lockRun(path)
		if err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		if r.version != 1 {
			t.Errorf("the file of a live tracker was brought to version %d", r.version)
		}
		readsAsVersion1(t, r, want)
		if err := lock.release(true); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("locked", func(t *testing.T) {
		path, want := copyVersion1(t)
		c, err := openConn(path, map[string][]string{"mode": {"rw"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.exec("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		if r.version != 1 {
			t.Errorf("version %d", r.version)
		}
		readsAsVersion1(t, r, want)
	})
}
