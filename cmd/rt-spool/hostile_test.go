package main

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// verbs read the files of a spool directory.
var verbs = [][]string{
	{"ls"}, {"ls", "12"}, {"report", "12"}, {"report", "-v", "12"}, {"export", "12"}, {"verify"}, {"drain", "--dry-run"}, {"gc", "--dry-run"},
	{"top", "--once", "12"},
}

// hostileSpool is a directory with the ended run of job 12, which sql has changed.
func hostileSpool(t *testing.T, run rt.Run, sqlText string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	run.JobID, run.Cluster, run.Start = rt.Some(uint64(12)), "lab", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run.State = rt.StateRunning
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		w.Put(&rt.Snapshot{Seq: i + 1, Boot: i * 1e9, Wall: run.Start.UnixNano() + i*1e9})
	}
	run.Apply(rt.Exit{Time: run.Start.Add(3 * time.Second), Outcome: rt.OutcomeFinished})
	run.State = rt.StateEnded
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	path := w.Path()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if sqlText != "" {
		db, err := sql.Open("sqlite3", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(sqlText); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func onSpool(t *testing.T, dir string, args ...string) (status int, output string) {
	t.Helper()
	var out bytes.Buffer
	status = run(t.Context(), append([]string{"rt-spool", "--config", "/dev/null", "--spool", dir}, args...), &out, &out)
	return status, out.String()
}

// No verb prints a character of a name that the terminal would interpret.
func TestNamesDoNotReachTheTerminal(t *testing.T) {
	const evil = "a\x1b[31m\x07\u009b2J\nrt-spool: forged\u202e\u200b\ufeff\tb\r"
	var r rt.Run
	r.Node, r.User, r.Account, r.Partition, r.Step = "n\x1b[1m", evil, evil, evil, "0"
	r.Meta.JobName, r.Meta.Tags, r.Command = evil, map[string]string{evil: evil}, []string{evil}
	dir := hostileSpool(t, r, "INSERT INTO event (kind, name, status, detail) SELECT v, v, v, v FROM (SELECT job_name AS v FROM run);"+
		"UPDATE run SET outcome = job_name, step = job_name, cgroup_layout = job_name, outcome_source = job_name")
	odd := filepath.Join(dir, "odd\x1b[2J\nrt-spool: forged\u202e.db")
	if err := os.WriteFile(odd, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range verbs {
		_, out := onSpool(t, dir, args...)
		for line := range strings.Lines(out) {
			text := strings.TrimSuffix(line, "\n")
			bad := strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) && c != '\t' })
			if bad || strings.HasPrefix(text, "rt-spool: forged") {
				t.Errorf("%q: %q", args, text)
			}
		}
	}
}

// Every verb refuses a file with a view in the place of a table, and ends.
func TestHostileSchemaStopsNoVerb(t *testing.T) {
	for _, table := range []string{"run", "snapshot", "event"} {
		view := "DROP TABLE " + table + "; CREATE VIEW " + table + " AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, i AS seq FROM n"
		dir := hostileSpool(t, rt.Run{}, view)
		files, err := filepath.Glob(filepath.Join(dir, "*.db"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		for _, args := range append(verbs, []string{"report", files[0]}, []string{"export", files[0]}) {
			if _, out := onSpool(t, dir, args...); strings.Contains(out, "finished") {
				t.Errorf("%q of a view for %s: %s", args, table, out)
			}
		}
		if status, out := onSpool(t, dir, "verify"); status != exitDamaged || !strings.Contains(out, "not a spool file") {
			t.Errorf("verify: status %d, %s", status, out)
		}
	}
}

// Root refuses the directory of a user, whatever a registration in it contains.
func TestRootLeavesTheSpoolOfAUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: has a spool of another user")
	}
	dir := hostileSpool(t, rt.Run{}, "INSERT INTO registration (id, endpoint, run_id) VALUES (1, 'http://127.0.0.1:1', 'victim')")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, dir) {
		if err := os.Chown(path, 4711, 4711); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(t.TempDir(), "rt.toml")
	err = os.WriteFile(conf, []byte("[sentinel]\nendpoint = \"http://127.0.0.1:1\"\nallow_http = true\n[spool]\ndir = \""+dir+"\"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SENTINEL_API_TOKEN", "t")
	for _, args := range [][]string{{"drain"}, {"drain", "--dry-run"}, {"gc"}} {
		var out bytes.Buffer
		status := run(t.Context(), append([]string{"rt-spool", "--config", conf}, args...), &out, &out)
		if status != exitConfig || !strings.Contains(out.String(), "belongs to uid 4711") || !strings.Contains(out.String(), "chown") {
			t.Errorf("%q: status %d, %s", args, status, out.String())
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".drain.lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("root locked the directory: %v", err)
	}
}

// report returns an error that is not damage, and does not report a damaged file.
func TestReportAfterAnotherError(t *testing.T) {
	dir := hostileSpool(t, rt.Run{}, "INSERT INTO record (time_us, source, body) VALUES (1, 'gempba', 'x')")
	if status, out := onSpool(t, dir, "report", "12"); status != 1 || strings.Contains(out, "Damaged") || !strings.Contains(out, "a stored line of GemPBA") {
		t.Errorf("report: status %d, %s", status, out)
	}
}

// report and export show the same damage of a file as verify.
func TestReportOfADamagedFile(t *testing.T) {
	dir := hostileSpool(t, rt.Run{}, "UPDATE snapshot SET boot_us = 'x' WHERE seq = 3")
	if status, out := onSpool(t, dir, "verify"); status != exitDamaged || !strings.Contains(out, "2 snapshots can be read: rt-spool export and report show them") {
		t.Errorf("verify: status %d, %s", status, out)
	}
	if status, out := onSpool(t, dir, "report", "12"); status != exitDamaged || !strings.Contains(out, "only the 2 readings before the damage") {
		t.Errorf("report: status %d, %s", status, out)
	}
	if status, out := onSpool(t, dir, "report", "--html", "-", "12"); status != exitDamaged || !strings.Contains(out, `"readings":2,`) || !strings.Contains(out, "<td>the rest of the run</td>") {
		t.Errorf("report --html: status %d, %s", status, out)
	}
	if status, out := onSpool(t, dir, "export", "--format", "jsonl", "12"); status != exitDamaged || strings.Count(out, "timestamp_secs") != 1 {
		t.Errorf("export: status %d, %s", status, out)
	}
}
