package upkeep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/objects"
	"github.com/resource-tracker/rt/site/registry"
)

// store is a site of one test.
type store struct {
	dir string
	*registry.Registry
	*objects.Dir
}

func newStore(t *testing.T) *store {
	t.Helper()
	return openStore(t, t.TempDir())
}

// copied returns a copy of a site that no process changes.
func (s *store) copied(t *testing.T) *store {
	t.Helper()
	if err := s.Wipe(t.Context()); err != nil { // all is in the file of the database
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return openStore(t, dir)
}

func openStore(t *testing.T, dir string) *store {
	t.Helper()
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := objects.OpenDir(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	return &store{dir, r, d}
}

// Close is of no use here.
func (s *store) Close() {}

// runID is the id of a run of these tests.
func runID(n int) string { return fmt.Sprintf("20261101t120000-%026d", n) }

// runOf reads a record of these tests: JSON.
func runOf(record io.Reader) (r rt.Run, err error) {
	err = json.NewDecoder(record).Decode(&r)
	return r, err
}

func recordOf(t *testing.T, n int, user string) (rt.Run, []byte) {
	t.Helper()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "lab", JobID: rt.Some(uint64(n)), Node: "n1", Start: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)},
		Allocation: rt.Allocation{User: user}, Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished},
	}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return run, text
}

func packed(t *testing.T, csv string) []byte {
	t.Helper()
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, err := io.WriteString(gz, csv)
	if err := errors.Join(err, gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put stores an object in the registry or, if inStore, in the object store.
func (s *store) put(t *testing.T, o site.Object, content []byte, inStore bool, record *rt.Run) {
	t.Helper()
	sum := sha256.Sum256(content)
	o.Bytes, o.SHA256, o.Created = int64(len(content)), hex.EncodeToString(sum[:]), time.Now().UTC().Truncate(time.Microsecond)
	if inStore {
		o.Stored = o.RunID + "/" + o.SHA256
		if err := s.Put(t.Context(), o.Stored, o.Bytes, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		content = nil
	}
	if _, err := s.Runs.PutObject(t.Context(), o, content, record); err != nil {
		t.Fatal(err)
	}
}

// fill stores a finished run of three objects: one in the registry, two in the object store.
func (s *store) fill(t *testing.T, n int, user string) (id string) {
	t.Helper()
	id = runID(n)
	meta := fmt.Sprintf(`{"job_name":"j","tags":{"slurm_user":%q}}`, user)
	if err := s.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now().Add(-100 * time.Hour), Metadata: []byte(meta)}); err != nil {
		t.Fatal(err)
	}
	for i, csv := range []string{"a,b\n1,2\n", "a,b\n3,4\n5,6\n"} {
		o := site.Object{RunID: id, Name: fmt.Sprint(i), Class: site.ClassCSV, Rows: int64(i + 1), Text: int64(len(csv)), Header: 4}
		s.put(t, o, packed(t, csv), i == 1, nil)
	}
	run, text := recordOf(t, n, user)
	s.put(t, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord}, text, true, &run)
	if _, err := s.Runs.Finish(t.Context(), id, site.Finish{RunStatus: "finished", DataSource: "s3", Keys: []string{"0", "1"}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	return id
}

// verify returns the damage of a site, one line each.
func (s *store) verify(t *testing.T) (Totals, []string) {
	t.Helper()
	found := []string{}
	v := Verifier{Registry: s.Registry, Objects: s.Dir, RunOf: runOf, Damaged: func(d Damage) {
		if d.Remedy == "" {
			t.Errorf("%+v has no remedy", d)
		}
		found = append(found, strings.TrimSpace(d.Run+" "+d.Job+"@"+d.Node+" "+d.Object+": "+d.Problem))
	}}
	totals, err := v.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return totals, found
}

// sql changes the registry as nothing of ours does.
func (s *store) sql(t *testing.T, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(s.dir, "registry.db"))
	if err == nil {
		_, err = db.Exec(query)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAWholeSiteHasNoDamage(t *testing.T) {
	s := newStore(t)
	var bytes int64
	for n := range 5 {
		all, err := s.Objects.OfRun(t.Context(), s.fill(t, n, "alice"))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			bytes += o.Bytes
		}
	}
	if err := s.Runs.Create(t.Context(), site.StoredRun{ID: runID(9), Owner: "o", Created: time.Now(), Metadata: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	totals, found := s.verify(t)
	if want := (Totals{Runs: 6, Objects: 15, Bytes: bytes}); totals != want || len(found) > 0 {
		t.Errorf("%+v, not %+v: %q", totals, want, found)
	}
}

// Each kind of damage is found, once, with its run.
func TestDamageIsFound(t *testing.T) {
	id := runID(1)
	job := id + " 1@n1 "
	for name, tc := range map[string]struct {
		damage func(t *testing.T, s *store)
		want   []string
	}{
		"object is gone": {
			func(t *testing.T, s *store) { s.change(t, "1", func(path string) error { return os.Remove(path) }) },
			[]string{job + "1: it is missing"},
		},
		"object is cut": {
			func(t *testing.T, s *store) {
				s.change(t, "1", func(path string) error { return os.Truncate(path, 20) })
			},
			[]string{job + "1: it has 20 bytes, not "},
		},
		"a bit of an object": {
			func(t *testing.T, s *store) { s.change(t, site.RecordName, flip) },
			[]string{job + "run.rtrec: its bytes are not those"},
		},
		"a bit of a body": {
			func(t *testing.T, s *store) {
				s.sql(t, "UPDATE object SET body = zeroblob(length(body)) WHERE name = '0'")
			},
			[]string{job + "0: its bytes are not those"},
		},
		"rows": {
			func(t *testing.T, s *store) { s.sql(t, "UPDATE object SET csv_rows = 7 WHERE name = '1'") },
			[]string{job + "1: it has 2 rows, not 7"},
		},
		"header": {
			func(t *testing.T, s *store) { s.sql(t, "UPDATE object SET header_bytes = 3 WHERE name = '1'") },
			[]string{job + "1: its text has 12 bytes with a header of 4, not 12 with 3"},
		},
		"record of another run": {
			func(t *testing.T, s *store) {
				s.sql(t, `UPDATE run SET record = CAST(replace(CAST(record AS TEXT), '"n1"', '"n2"') AS BLOB)`)
			},
			[]string{id + " 1@n2 run.rtrec: it is of another run"},
		},
		"row of a key": {
			func(t *testing.T, s *store) { s.sql(t, "DELETE FROM object WHERE name = '1'") },
			[]string{"@ : run " + id + " has another number", "@ : the use of a quota is wrong", "@ : the use of a quota is wrong", job + "1: it has no row"},
		},
		"row of the record": {
			func(t *testing.T, s *store) {
				s.sql(t, "DELETE FROM object WHERE name = 'run.rtrec'; UPDATE run SET objects = 2; DELETE FROM disk_use; INSERT INTO disk_use SELECT o.owner, 0, (SELECT sum(charged) FROM run) + (SELECT sum(bytes + 1024) FROM object) FROM (SELECT 'o' AS owner UNION ALL SELECT '') o")
			},
			[]string{job + "run.rtrec: it has no row"},
		},
		"row of the run": {
			func(t *testing.T, s *store) { s.sql(t, "DELETE FROM run; DELETE FROM disk_use") },
			[]string{"@ : object " + id + "/0 has no run", "@ : object " + id + "/1 has no run", "@ : object " + id + "/run.rtrec has no run", "@ : job lab:1 has no run"},
		},
		"row of the job": {
			func(t *testing.T, s *store) { s.sql(t, "DELETE FROM job") },
			[]string{"@ : run " + id + " has no job"},
		},
		"text of the run": {
			func(t *testing.T, s *store) { s.sql(t, "UPDATE run SET finish = 'x'") },
			[]string{"the data of the site are damaged: run " + id},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			if got := s.fill(t, 1, "alice"); got != id {
				t.Fatal(got)
			}
			tc.damage(t, s)
			totals, found := s.verify(t)
			slices.Sort(found)
			slices.Sort(tc.want)
			isSame := slices.EqualFunc(found, tc.want, strings.Contains)
			if !isSame || totals.Damaged != len(found) {
				t.Errorf("%q, not %q; %+v", found, tc.want, totals)
			}
		})
	}
}

// change changes the file of an object.
func (s *store) change(t *testing.T, object string, change func(path string) error) {
	t.Helper()
	all, err := s.Objects.OfRun(t.Context(), runID(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.Name == object {
			if err := change(filepath.Join(s.dir, "objects", o.Stored)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func flip(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[len(content)/2] ^= 1
	return os.WriteFile(path, content, 0o600)
}

// A SQLite file with damaged pages is damage, not a failure.
func TestADamagedDatabaseIsFound(t *testing.T) {
	s := newStore(t)
	for n := range 50 {
		s.fill(t, n, strings.Repeat("alice", 100))
	}
	s.sql(t, "PRAGMA wal_checkpoint(TRUNCATE)")
	f, err := os.OpenFile(filepath.Join(s.dir, "registry.db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for at := int64(60 * page); at < info.Size(); at += 7 * page {
		if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, page), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(t.Context(), filepath.Join(s.dir, "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Registry = r
	totals, found := s.verify(t)
	if totals.Damaged == 0 || !strings.Contains(strings.Join(found, "\n"), "the database file is damaged") {
		t.Errorf("%+v %q", totals, found)
	}
}

// Objects of no run are counted when they are older than a day.
func TestUnnamedObjectsAreCounted(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	for name, age := range map[string]time.Duration{id + "/old": 25 * time.Hour, runID(2) + "/old": 25 * time.Hour, runID(2) + "/new": time.Hour} {
		if err := s.Put(t.Context(), name, 3, strings.NewReader("abc")); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(s.dir, "objects", name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if totals, found := s.verify(t); totals.Unnamed != 2 || totals.UnnamedBytes != 6 || len(found) > 0 {
		t.Errorf("%+v %q", totals, found)
	}
}

// racing is an object store next to which a receiver changes a run between the list of its objects and each read.
type racing struct {
	*objects.Dir
	change func()
}

func (r *racing) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r.change()
	return r.Dir.Get(ctx, name)
}

// What a receiver changes during the check is no damage.
func TestChangesDuringTheCheckAreNoDamage(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *store, id string){
		"replaced": func(t *testing.T, s *store, id string) {
			run, text := recordOf(t, 1, "alice")
			text = append(text, ' ')
			old, err := s.Objects.OfRun(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			s.put(t, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord}, text, true, &run)
			if err := s.Delete(t.Context(), old[2].Stored); err != nil {
				t.Fatal(err)
			}
		},
		"removed": func(t *testing.T, s *store, _ string) {
			stored, n, err := s.Removals.ExpireRuns(t.Context(), time.Now().Add(time.Hour), 10)
			if err != nil || n != 1 {
				t.Fatal(n, err)
			}
			for _, name := range stored {
				if err := s.Delete(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			id := s.fill(t, 1, "alice")
			changes := 0
			r := &racing{s.Dir, func() {
				if changes == 0 {
					change(t, s, id)
				}
				changes++
			}}
			v := Verifier{Registry: s.Registry, Objects: r, RunOf: runOf, Damaged: func(d Damage) { t.Errorf("%+v", d) }}
			if _, err := v.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			if changes == 0 {
				t.Error("nothing was changed during the check")
			}
		})
	}
}

// What retention has removed is no damage.
func TestRetentionIsNoDamage(t *testing.T) {
	s := newStore(t)
	s.fill(t, 1, "alice")
	for _, class := range []site.Class{site.ClassCSV, site.ClassRecord} {
		stored, n, err := s.Removals.Expire(t.Context(), class, time.Now().Add(time.Hour), 10)
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		for _, name := range stored {
			if err := s.Delete(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if totals, found := s.verify(t); totals.Objects != 0 || totals.Unnamed != 0 || len(found) > 0 {
		t.Errorf("%+v %q", totals, found)
	}
}

// Of a run that never stays the same, what did not change can be damaged, and what changed cannot.
func TestARunThatAlwaysChanges(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	s.sql(t, "UPDATE object SET csv_rows = 7 WHERE name = '1'")
	n := 0
	change := func() {
		n++
		run, text := recordOf(t, 1, "alice")
		old, err := s.Objects.OfRun(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		s.put(t, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord}, append(text, strings.Repeat(" ", n)...), true, &run)
		if err := s.Delete(t.Context(), old[2].Stored); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	v := Verifier{Registry: s.Registry, Objects: &racing{s.Dir, change}, RunOf: runOf, Damaged: func(d Damage) { found = append(found, d.Object+": "+d.Problem) }}
	totals, err := v.Verify(t.Context())
	if want := []string{"1: it has 2 rows, not 7"}; err != nil || totals.Runs != 1 || !slices.Equal(found, want) {
		t.Errorf("%q, not %q; %+v, %v", found, want, totals, err)
	}
}
