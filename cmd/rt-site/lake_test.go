package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
)

// lakeRow is a row of runs.
type lakeRow struct {
	ID    string `parquet:"id"`
	Name  string `parquet:"run_name"`
	User  string `parquet:"user_name"`
	State string `parquet:"state"`
	CPU   struct {
		UsedSecs *float64 `parquet:"used_secs,optional"`
	} `parquet:"cpu"`
	Samples int64 `parquet:"samples"`
}

type lakeSample struct {
	Name  string `parquet:"run_name"`
	Seq   int64  `parquet:"seq"`
	Usage *int64 `parquet:"job_cpu_usage_us,optional"`
}

// lakeRows reads a table of the lake in a directory as an engine does.
func lakeRows[T any](t *testing.T, dir, table string) (all []T) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, table, "cluster=*", "date=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		list, err := parquet.ReadFile[T](name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
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
	st, err := openStores(t.Context(), cfg.Serve, nil)
	if err != nil {
		t.Fatal(err)
	}
	started(t, st)
	for i, user := range users {
		putRun(t, st, idOfRun(i), user)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	return configFile, dir
}

func idOfRun(i int) string { return fmt.Sprintf("20260301t100000-%026d", i) }

// lakeCall calls the program, which must end with a status, and returns its output.
func lakeCall(t *testing.T, status int, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if got := run(t.Context(), args, &stdout, &stderr); got != status {
		t.Fatalf("rt-site %q: status %d, not %d; %s%s", args, got, status, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

func TestLake(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	var done lake.Totals
	if err := json.Unmarshal([]byte(lakeCall(t, cli.ExitOK, "--config", file, "lake", "--json")), &done); err != nil {
		t.Fatal(err)
	}
	runs, samples := lakeRows[lakeRow](t, dir, "runs"), lakeRows[lakeSample](t, dir, "samples")
	isWhole := len(runs) == 1 && runs[0].User == "alice" && runs[0].CPU.UsedSecs != nil && int64(len(samples)) == runs[0].Samples
	if !isWhole || done.Runs != 1 || done.Samples != int64(len(samples)) {
		t.Fatalf("%+v: %+v and %d samples", done, runs, len(samples))
	}
	if out := lakeCall(t, cli.ExitOK, "--config", file, "lake"); !strings.HasPrefix(out, "wrote 0 runs") {
		t.Errorf("a second pass: %s", out)
	}
	if out := lakeCall(t, cli.ExitOK, "--config", file, "lake", "--rebuild"); !strings.HasPrefix(out, "wrote 1 runs") {
		t.Errorf("a rebuild: %s", out)
	}
	if again := lakeRows[lakeRow](t, dir, "runs"); len(again) != 1 {
		t.Errorf("after a rebuild: %+v", again)
	}
	st := lakeStores(t, file)
	state, err := st.registry.Lake.State(t.Context())
	isWritten := err == nil && state.LastSuccess.Valid() && state.Unwritten == 0
	if !isWritten || st.close() != nil {
		t.Errorf("the state of the lake is %+v, %v", state, err)
	}
	out := t.TempDir()
	lakeCall(t, cli.ExitOK, "--config", file, "export", "--job", "99", "--out", out)
	if exported := lakeRows[lakeRow](t, out, "runs"); len(exported) != 1 || exported[0].ID != runs[0].ID {
		t.Errorf("exported: %+v", exported)
	}
	lakeCall(t, cli.ExitError, "--config", file, "export", "--job", "98", "--out", out)
	lakeCall(t, cli.ExitUsage, "--config", file, "export", "--job", "x", "--out", out)
	lakeCall(t, cli.ExitUsage, "--config", file, "export", "--job", "1", "--out", out, "--format", "csv")
	lakeCall(t, exitConfig, "--config", "/dev/null", "lake")
}

// With --dir, a copy of the site does not write to the lake of the site.
func TestLakeOfACopy(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	site, backup := filepath.Join(filepath.Dir(file), "site"), filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(site)); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, exitConfig, "--config", file, "lake", "--rebuild", "--dir", backup)
	if out := lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice", "--dir", backup); !strings.Contains(out, "the lake is not changed") {
		t.Errorf("forget in the copy: %s", out)
	}
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 {
		t.Errorf("the lake of the site has %+v, want the run of alice", runs)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "lake", "--dir", site)
}

// The lake is not in a directory of the site, and the site not in the lake's directory. A symbolic
// link does not hide that.
func TestCheckLake(t *testing.T) {
	top := t.TempDir()
	for _, err := range []error{os.Mkdir(filepath.Join(top, "site"), 0o700), os.Symlink("site", filepath.Join(top, "link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		lake, dir, objects string
		isRefused          bool
	}{
		{"/srv/lake", "/srv/site", "", false},
		{"/srv/site-lake", "/srv/site", "s3://b/site", false},
		{"/srv/site/lake", "/srv/site/", "", true},
		{"/srv/site", "/srv/site", "", true},
		{"/srv", "/srv/site", "", true},
		{"lake", "/srv/site", "", true},
		{"s3://b/lake", "/srv/site", "s3://b/site", false},
		{"s3://b/site-lake", "/srv/site", "s3://b/site", false},
		{"s3://b/site/lake", "/srv/site", "s3://b/site/", true},
		{"s3://b", "/srv/site", "s3://b/site", true},
		{top + "/link/a/lake", top + "/site", "", true},
		{top + "/link", top + "/site", "", true},
		{top + "/site/lake", top + "/link", "", true},
		{top + "/lake", top + "/link", "", false},
	} {
		err := checkLake(config.Serve{Lake: tt.lake, Dir: tt.dir, Objects: tt.objects})
		if (err != nil) != tt.isRefused {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	file, _ := lakeSite(t, "alice")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	inside := strings.Replace(string(text), `lake"`, `site/lake"`, 1)
	if err := os.WriteFile(file, []byte(inside), 0o600); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, exitConfig, "--config", file, "lake")
	if out := lakeCall(t, exitConfig, "--config", file, "forget", "--user", "alice"); strings.Contains(out, "delete the runs") {
		t.Errorf("forget began: %s", out)
	}
}

// lakeStores opens the stores of a site as rt-site lake does.
func lakeStores(t *testing.T, file string) *stores {
	t.Helper()
	_, o, err := parse([]string{"--config", file, "lake"}, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	_, st, err := o.openForLake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// A run with a line of another program that cannot be parsed is reported, and a run without its
// object. The others are written; the run without its object is tried again.
func TestLakeWithUnreadableRuns(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	st := lakeStores(t, file)
	putRun(t, st, idOfRun(7), "bob", rt.ForeignReport{Time: 1, Source: "gempba", Body: []byte(`{"line": 1}`)})
	putRun(t, st, idOfRun(8), "carol", rt.ForeignReport{Time: 1, Source: "powerapi", Body: []byte(`{"report": 1}`)})
	run, _, record := recordOf(t, "dave")
	sum := fmt.Sprintf("%x", sha256.Sum256(record))
	id := idOfRun(9)
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: sum, Stored: id + "/" + sum, Created: time.Now()}
	err := st.registry.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now()})
	if err == nil {
		_, err = st.registry.Runs.PutObject(t.Context(), o, nil, &run)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := lakeCall(t, exitData, "--config", file, "lake")
	for _, id := range []string{idOfRun(7), idOfRun(8), idOfRun(9)} {
		if !strings.Contains(out, "run "+id+" is not written") {
			t.Errorf("%s is not reported: %s", id, out)
		}
	}
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 || runs[0].User != "alice" {
		t.Errorf("%+v", runs)
	}
	if err := st.objects.Put(t.Context(), o.Stored, o.Bytes, bytes.NewReader(record)); err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 || runs[0].User != "dave" {
		t.Errorf("after the object came back: %+v", runs)
	}
}

// A damaged file of the lake is reported with what to do, and forget does not succeed with it.
func TestLakeWithADamagedFile(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	names, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "*.parquet"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if err := os.Truncate(names[0], 1000); err != nil {
		t.Fatal(err)
	}
	const damaged = 65
	for _, args := range [][]string{{"lake", "--rebuild"}, {"lake"}, {"forget", "--user", "bob", "--dry-run"}, {"forget", "--user", "bob"}} {
		out := lakeCall(t, damaged, append([]string{"--config", file}, args...)...)
		if !strings.Contains(out, "part-00001.parquet: the file is damaged, or no Parquet") || !strings.Contains(out, "restore it from a backup, or delete") {
			t.Errorf("%q: %s", args, out)
		}
	}
	for _, name := range []string{names[0], strings.Replace(names[0], "/runs/", "/samples/", 1)} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	lakeCall(t, cli.ExitOK, "--config", file, "lake", "--rebuild")
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 {
		t.Errorf("after the files were deleted: %+v", runs)
	}
}

// Root does not write into the lake of another user.
func TestLakeOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkLakeOwner(dir, 0); !errors.Is(err, errOtherUser) {
		t.Errorf("root: %v", err)
	}
	err := errors.Join(checkLakeOwner(dir, 1000), checkLakeOwner(filepath.Join(dir, "new"), 0))
	if err != nil {
		t.Error(err)
	}
}

// The end of forget is in the audit after the lake, as a failure if the lake was not changed.
func TestAuditOfForgetInLake(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	st := lakeStores(t, file)
	defer st.close()
	last := func() string {
		lines, err := st.registry.Settings.Audits(t.Context())
		if err != nil || len(lines) == 0 {
			t.Fatalf("%q, %v", lines, err)
		}
		return lines[len(lines)-1]
	}
	_, release, err := st.registry.Lake.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitError, "--config", file, "forget", "--user", "alice")
	if line := last(); !strings.Contains(line, "failed to delete the runs of alice") {
		t.Error(line)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice")
	if line := last(); !strings.Contains(line, "ended to delete the runs of alice") {
		t.Error(line)
	}
}

// A second writer does not start.
func TestLakeHasOneWriter(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	_, o, err := parse([]string{"--config", file, "lake"}, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	_, st, err := o.openForLake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.close()
	_, release, err := st.registry.Lake.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out := lakeCall(t, cli.ExitError, "--config", file, "lake"); !strings.Contains(out, "another process has the lock") {
		t.Error(out)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
}

// forget reaches the lake: also runs that the site has removed before.
func TestForgetInLake(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	if out := lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice", "--dry-run"); !strings.Contains(out, "in the lake: 0 runs written again, 1 removed") {
		t.Error(out)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "bob")
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 {
		t.Fatalf("after a dry run, and for another user: %+v", runs)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice")
	runs, samples := lakeRows[lakeRow](t, dir, "runs"), lakeRows[any](t, dir, "samples")
	if len(runs) != 0 || len(samples) != 0 {
		t.Errorf("%+v and %d samples are left", runs, len(samples))
	}

	file, dir = lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice", "--pseudonym")
	runs = lakeRows[lakeRow](t, dir, "runs")
	isHidden := len(runs) == 1 && runs[0].User != "" && runs[0].User != "alice" && runs[0].Samples > 0
	if !isHidden {
		t.Errorf("with pseudonyms: %+v", runs)
	}
	names, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text := wholeText(t, name); strings.Contains(text, "alice") {
			t.Errorf("%s still has the name", name)
		}
	}
}

// wholeText is the text of all values of a file.
func wholeText(t *testing.T, name string) string {
	t.Helper()
	rows, err := parquet.ReadFile[any](name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows...)
}

// A run that the site has removed by retention stays in the lake, and forget removes it.
func TestForgetWhatTheSiteHasNoMore(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	_, o, err := parse([]string{"--config", file, "lake"}, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	_, st, err := o.openForLake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, n, err := st.registry.Removals.ExpireRuns(t.Context(), time.Now().Add(time.Hour), 10); err != nil || n != 1 {
		t.Fatalf("%d runs expired: %v", n, err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "lake")
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 1 {
		t.Fatalf("after retention at the site: %+v", runs)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice")
	if runs := lakeRows[lakeRow](t, dir, "runs"); len(runs) != 0 {
		t.Errorf("after forget: %+v", runs)
	}
}
