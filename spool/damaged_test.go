package spool

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
)

// sample writes the file of an ended run with n snapshots and returns its bytes.
func endedFile(t testing.TB, n int) []byte {
	t.Helper()
	w := mustCreate(t, Options{})
	m := newMachine(4, 1)
	for range n {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sql runs statements on a copy of a file and returns the copy's bytes.
func altered(t *testing.T, data []byte, sql string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(path, map[string][]string{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.exec(sql), c.Close()); err != nil {
		t.Fatal(err)
	}
	if data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return data
}

func zeroed(data []byte, page int) []byte {
	data = append([]byte(nil), data...)
	clear(data[page*pageSize : (page+1)*pageSize])
	return data
}

// damagedDir is a directory with one good run among files that are none.
func damagedDir(t *testing.T) string {
	t.Helper()
	good := endedFile(t, 5)
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"good.db":      good,
		"empty.db":     {},
		"text.db":      []byte(strings.Repeat("no database at all\n", 100)),
		"cut.db":       good[:pageSize*3],
		"zeroed.db":    zeroed(good, 0),
		"magic.db":     altered(t, good, "PRAGMA application_id = 7"),
		"newer.db":     altered(t, good, "PRAGMA user_version = 99"),
		"norun.db":     altered(t, good, "DELETE FROM run"),
		"stray.txt":    []byte("x"),
		"half.new":     []byte("x"),
		".drain.lock":  {},
		"good.db-x":    {},
		"oddtypes.db":  altered(t, good, "UPDATE run SET job_id = 'twelve'"),
		"badstate.db":  altered(t, good, "UPDATE run SET tags = '{'"),
		"notables.db":  altered(t, good, "DROP TABLE host"),
		"noversion.db": altered(t, good, "PRAGMA user_version = 0"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("good.db", filepath.Join(dir, "link.db")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestListGoesOnPastWhatItCannotRead(t *testing.T) {
	dir := damagedDir(t)
	want := map[string]error{
		"good.db": nil, "empty.db": ErrForeign, "text.db": ErrForeign, "cut.db": ErrDamaged, "zeroed.db": ErrForeign,
		"magic.db": ErrForeign, "newer.db": ErrNewer, "norun.db": ErrDamaged, "oddtypes.db": ErrDamaged,
		"badstate.db": ErrDamaged, "link.db": ErrForeign, "dir.db": ErrForeign, "notables.db": ErrDamaged, "noversion.db": ErrDamaged,
	}
	entries, err := List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		name := filepath.Base(e.Path)
		expected, ok := want[name]
		if !ok {
			t.Errorf("%s is listed", name)
		}
		if !errors.Is(e.Err, expected) || e.Err != nil && !strings.Contains(e.Err.Error(), name) {
			t.Errorf("%s: error %v, want %v with the file's name", name, e.Err, expected)
		}
		if name == "good.db" && (i != 0 || e.Snapshots != 5 || e.Size == 0 || e.Live || e.Run.User != "ada") {
			t.Errorf("the good one at place %d: %+v", i, e)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	if _, err := List(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

// Whatever page of a file is gone, reading ends with an error or Verify finds it;
// nothing panics.
func TestNoDamagedPageGoesUnnoticed(t *testing.T) {
	t.Parallel()
	good := endedFile(t, 300)
	dir := t.TempDir()
	step := sized(1, 5)
	for page := random.Below(t, step); page < len(good)/pageSize; page += step {
		path := filepath.Join(dir, "x.db")
		if err := os.WriteFile(path, zeroed(good, page), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Errorf("page %d: the error does not name the file: %v", page, err)
			}
			continue
		}
		if problems := r.Verify(t.Context()); len(problems) == 0 {
			t.Errorf("page %d is gone and Verify finds nothing", page)
		}
		for _, err := range r.Snapshots(t.Context(), 1, 0) {
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("page %d: the error does not name the file: %v", page, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Of a file with a damaged page what comes before it can still be had.
func TestReadableOfADamagedFile(t *testing.T) {
	t.Parallel()
	good := endedFile(t, 300)
	path := filepath.Join(t.TempDir(), "x.db")
	some := 0
	step := sized(1, 5)
	for page := random.Below(t, step); page < len(good)/pageSize; page += step {
		if err := os.WriteFile(path, zeroed(good, page), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			continue
		}
		n, last := Readable(t.Context(), r)
		if n != last || n > 300 {
			t.Errorf("page %d: %d snapshots up to number %d", page, n, last)
		}
		if n > 0 && n < 300 {
			some++
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if some == 0 {
		t.Error("no damaged page leaves a part that can be read")
	}
}

func TestVerifyFindsWhatBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	good := endedFile(t, 300)
	for sql, word := range map[string]string{
		"DELETE FROM snapshot WHERE seq = 7":                        "without a snapshot",
		"UPDATE snapshot SET boot_us = -5 WHERE seq = 7":            "boot clock",
		"UPDATE snapshot SET boot_us = NULL WHERE seq = 7":          "boot_us",
		"UPDATE core_ticks SET cores = x'0102' WHERE seq = 7":       "core_ticks",
		"UPDATE core_ticks SET cores = 5 WHERE seq = 7":             "core_ticks",
		"UPDATE snapshot SET node_processes = 'many' WHERE seq = 7": "node_processes",
		"UPDATE snapshot SET job_phase = 9 WHERE seq = 7":           "phase 9",
		"UPDATE snapshot SET job_phase = 900 WHERE seq = 7":         "job_phase",
		"UPDATE snapshot SET reason = NULL WHERE seq = 7":           "missing",
		"UPDATE snapshot SET node_gpu_usage = 'x' WHERE seq = 1":    "node_gpu_usage",
		"UPDATE core_ticks SET seq = 9999 WHERE seq = 1":            "snapshot 9999",
		"INSERT INTO step_value (seq, step) VALUES (7, 5)":          "step 5",
		"INSERT INTO energy_value (seq, energy) VALUES (7, 5)":      "energy 5",
		"DELETE FROM net": "in no table",
		"UPDATE net_value SET seq = 9999 WHERE seq = 1 AND net = 1": "snapshot 9999",
		"UPDATE gpu_value SET vram_used_bytes = 'x'":                "wrong type",
		"INSERT INTO batch VALUES (1, 5, 6, 2, 1, '', '', 1, NULL)": "batch 1",
		"UPDATE run SET state = 'paused'":                           "paused",
		"UPDATE run SET state = 'running', outcome = 'failed'":      "running",
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(path, altered(t, good, sql), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		problems := r.Verify(t.Context())
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.What + "\n")
		}
		if !strings.Contains(all.String(), word) {
			t.Errorf("%s: problems %q, want one with %q", sql, all.String(), word)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that may not be written: the file is read as it is.
func TestOpenReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	if err := os.WriteFile(path, endedFile(t, 5), 0o400); err != nil {
		t.Fatal(err)
	}
	readOnlyMount(t, dir)
	r := mustOpen(t, path)
	if n, err := r.Count(); n != 5 || err != nil {
		t.Errorf("%d snapshots, %v", n, err)
	}
	if err := r.AddEvent(rt.Event{}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a change: %v", err)
	}
	if problems := r.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("verify: %v", problems)
	}
}
