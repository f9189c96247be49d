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

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
)

// lakeRow is a row of runs.
type lakeRow struct {
	ID    string `json:"id"`
	Name  string `json:"run_name"`
	User  string `json:"user_name"`
	State string `json:"state"`
	CPU   struct {
		UsedSecs *float64 `json:"used_secs"`
	} `json:"cpu"`
	Samples int64 `json:"samples"`
}

type lakeSample struct {
	Name  string `json:"run_name"`
	Seq   int64  `json:"seq"`
	Usage *int64 `json:"job_cpu_usage_us"`
}

func TestLake(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	var done lake.Totals
	if err := json.Unmarshal([]byte(lakeCall(t, cli.ExitOK, "--config", file, "--json")), &done); err != nil {
		t.Fatal(err)
	}
	runs, samples := tableRows[lakeRow](t, file, "runs"), tableRows[lakeSample](t, file, "samples")
	isWhole := len(runs) == 1 && runs[0].User == "alice" && runs[0].CPU.UsedSecs != nil && int64(len(samples)) == runs[0].Samples
	if !isWhole || done.Runs != 1 || done.Samples != int64(len(samples)) {
		t.Fatalf("%+v: %+v and %d samples", done, runs, len(samples))
	}
	if out := lakeCall(t, cli.ExitOK, "--config", file); !strings.HasPrefix(out, "wrote 0 runs") {
		t.Errorf("a second pass: %s", out)
	}
	if out := lakeCall(t, cli.ExitOK, "--config", file, "rebuild"); !strings.HasPrefix(out, "wrote 1 runs") {
		t.Errorf("a rebuild: %s", out)
	}
	if again := tableRows[lakeRow](t, file, "runs"); len(again) != 1 {
		t.Errorf("after a rebuild: %+v", again)
	}
	st := siteStores(t, file)
	state, err := st.Registry.Lake.State(t.Context())
	isWritten := err == nil && state.LastSuccess.Valid() && state.Unwritten == 0
	if !isWritten || st.Close() != nil {
		t.Errorf("the state of the lake is %+v, %v", state, err)
	}
	out := t.TempDir()
	lakeCall(t, cli.ExitOK, "--config", file, "export", "--job", "99", "--out", out)
	if n, m := fileRows(t, filepath.Join(out, "runs.parquet")), fileRows(t, filepath.Join(out, "samples.parquet")); n != 1 || m != done.Samples {
		t.Errorf("exported: %d runs, %d samples", n, m)
	}
	lakeCall(t, cli.ExitError, "--config", file, "export", "--job", "98", "--out", out)
	lakeCall(t, cli.ExitUsage, "--config", file, "export", "--job", "x", "--out", out)
	lakeCall(t, cli.ExitUsage, "--config", file, "export", "--job", "1", "--out", out, "--format", "csv")
	lakeCall(t, exitConfig, "--config", "/dev/null")
}

// A rebuild that has lost a file says so, and writes its runs again.
func TestRebuildOfALostFile(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file)
	files, err := filepath.Glob(filepath.Join(dir, "samples", "data", "*", "*", "*.parquet"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if out := lakeCall(t, exitData, "--config", file, "rebuild"); !strings.Contains(out, files[0]) || !strings.Contains(out, "wrote 1 runs") {
		t.Error(out)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "rebuild")
	if runs, samples := tableRows[lakeRow](t, file, "runs"), tableRows[lakeSample](t, file, "samples"); len(runs) != 1 || int64(len(samples)) != runs[0].Samples {
		t.Errorf("%+v and %d samples", runs, len(samples))
	}
}

// With --dir, a copy of the site does not write to the lake of the site.
func TestLakeOfACopy(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file)
	site, backup := filepath.Join(filepath.Dir(file), "site"), filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(site)); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, exitConfig, "--config", file, "rebuild", "--dir", backup)
	lakeCall(t, exitConfig, "--config", file, "forget", "--user", "alice", "--dir", backup)
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 1 {
		t.Errorf("the lake of the site has %+v, want the run of alice", runs)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "--dir", site)
}

// A run with a line of another program that cannot be parsed is reported, and a run without its
// object. The others are written; the run without its object is tried again.
func TestLakeWithUnreadableRuns(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	st := siteStores(t, file)
	putRun(t, st, idOfRun(7), "bob", rt.ForeignReport{Time: 1, Source: "gempba", Body: []byte(`{"line": 1}`)})
	putRun(t, st, idOfRun(8), "carol", rt.ForeignReport{Time: 1, Source: "powerapi", Body: []byte(`{"report": 1}`)})
	run, _, record := recordOf(t, "dave")
	sum := fmt.Sprintf("%x", sha256.Sum256(record))
	id := idOfRun(9)
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: sum, Stored: id + "/" + sum, Created: time.Now()}
	err := st.Registry.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now()})
	if err == nil {
		_, err = st.Registry.Runs.PutObject(t.Context(), o, nil, &run)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := lakeCall(t, exitData, "--config", file)
	for _, id := range []string{idOfRun(7), idOfRun(8), idOfRun(9)} {
		if !strings.Contains(out, "run "+id+" is not written") {
			t.Errorf("%s is not reported: %s", id, out)
		}
	}
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 1 || runs[0].User != "alice" {
		t.Errorf("%+v", runs)
	}
	if err := st.Objects.Put(t.Context(), o.Stored, o.Bytes, bytes.NewReader(record)); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file)
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 1 || runs[0].User != "dave" {
		t.Errorf("after the object came back: %+v", runs)
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
	if err := checkOwner(dir, 0); !errors.Is(err, sitestores.ErrOtherUser) {
		t.Errorf("root: %v", err)
	}
	err := errors.Join(checkOwner(dir, 1000), checkOwner(filepath.Join(dir, "new"), 0))
	if err != nil {
		t.Error(err)
	}
}

// A second writer does not start.
func TestLakeHasOneWriter(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	st := siteStores(t, file)
	defer st.Close()
	_, release, err := st.Registry.Lake.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out := lakeCall(t, cli.ExitError, "--config", file); !strings.Contains(out, "another process has the lock") {
		t.Error(out)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file)
}

// A run that the site has removed by retention stays in the lake, and forget removes it.
func TestForgetWhatTheSiteHasNoMore(t *testing.T) {
	file, _ := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file)
	st := siteStores(t, file)
	if _, n, err := st.Registry.Removals.ExpireRuns(t.Context(), time.Now().Add(time.Hour), 10); err != nil || n != 1 {
		t.Fatalf("%d runs expired: %v", n, err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	lakeCall(t, cli.ExitOK, "--config", file)
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 1 {
		t.Fatalf("after retention at the site: %+v", runs)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice")
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 0 {
		t.Errorf("after forget: %+v", runs)
	}
}

// forget reaches the lake: also a run that the site has removed before. No file of the lake has the name after it.
func TestForgetInLake(t *testing.T) {
	file, dir := lakeSite(t, "alice")
	lakeCall(t, cli.ExitOK, "--config", file)
	if out := lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice", "--dry-run"); !strings.Contains(out, "in the lake: 0 runs written again, 1 removed") {
		t.Error(out)
	}
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "bob")
	if runs := tableRows[lakeRow](t, file, "runs"); len(runs) != 1 {
		t.Fatalf("after a dry run, and for another user: %+v", runs)
	}
	removeRun(t, file, idOfRun(0))
	lakeCall(t, cli.ExitOK, "--config", file, "forget", "--user", "alice")
	runs, samples := tableRows[lakeRow](t, file, "runs"), tableRows[lakeSample](t, file, "samples")
	if len(runs) != 0 || len(samples) != 0 {
		t.Errorf("%+v and %d samples are left", runs, len(samples))
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasSuffix(path, ".parquet") {
			t.Errorf("%s is left", path)
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "alice") {
			t.Errorf("%s still has the name", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	lakeCall(t, cli.ExitUsage, "--config", file, "forget")
}
