package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/format/ftdc"
)

// What root imports belongs to the owner of the spool, who delivers it.
func TestImportedRunsBelongToTheSpool(t *testing.T) {
	dir := t.TempDir()
	uid := os.Getuid()
	if uid == 0 {
		uid = 12345
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "a.ftdc")
	var text bytes.Buffer
	r := runtest.Spool(t, rt.Run{Identity: rt.Identity{Node: "n1"}, Ending: rt.Ending{State: rt.StateRunning}}, []rt.Snapshot{{Seq: 1, Boot: 1e12, Wall: 1772367180e9}})
	if err := ftdc.Export(t.Context(), &text, r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"rt-spool", "--config", "/dev/null", "--spool", dir, "import", "-f", "ftdc", file}, &stdout, &stderr); status != 0 {
		t.Fatal(status, stderr.String())
	}
	st, err := os.Stat(strings.TrimSpace(stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	if owner := int(st.Sys().(*syscall.Stat_t).Uid); owner != uid {
		t.Errorf("it belongs to %d, not to %d", owner, uid)
	}
}

// Runs that are in the spool do not count against the limit: a file that has grown can be imported
// again.
func TestImportLimitCountsNewRuns(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "x.csv")
	for _, c := range []struct {
		jobs, other, made int
		text              string
		status            int
	}{
		{jobs: 3, made: 3},
		{jobs: 6, made: 6, text: "job 1 on h is already in the spool"},
		{jobs: 10, made: 6, text: "10 runs, a file each, and the limit is 3", status: 1},
		{jobs: 10, other: 2, made: 8, text: "4 runs, a file each, and the limit is 3", status: 1},
		{jobs: 100, made: 8, text: "100 runs, a file each, and the limit is 3", status: 1},
	} {
		for i := range c.other {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("other%d.db", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var text strings.Builder
		for job := c.jobs; job > 0; job-- {
			fmt.Fprintf(&text, "v=0.12.0,time=2026-03-01T12:00:00+00:00,host=h,user=u,job=%d,pid=%d,cmd=c,cputime_sec=5\n", job, job)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out := onSpool(t, dir, "import", "-f", "sonar-csv", "--max-runs", "3", file)
		made, err := filepath.Glob(filepath.Join(dir, "*.db"))
		if err != nil || status != c.status || !strings.Contains(out, c.text) || len(made) != c.made {
			t.Errorf("%d jobs: status %d, %d runs, %v, %s", c.jobs, status, len(made), err, out)
		}
	}
}

// A small file that names many jobs is refused before a run is created, unless a flag raises the
// limit. The size of the created runs has a limit, too.
func TestImportIsBounded(t *testing.T) {
	var text strings.Builder
	for job := range 300 {
		fmt.Fprintf(&text, "v=0.12.0,time=2026-03-01T12:00:00+00:00,host=h%d,user=u,job=%d,pid=%d,cmd=c,cputime_sec=5\n", job, job+1, job+1)
	}
	file := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args       []string
		status     int
		text       string
		atMost     int
		everything bool
	}{
		{args: []string{"--max-runs", "299"}, status: 1, text: "300 runs, a file each, and the limit is 299: --max-runs raises it"},
		{args: []string{"--max-size", "1MiB"}, status: 1, text: "more than 1 MiB: --max-size raises the limit", atMost: 20},
		{args: []string{"--max-runs", "300"}, atMost: 300, everything: true},
		{args: []string{"--max-size", "much"}, status: 2, text: "--max-size"},
	} {
		dir := t.TempDir()
		status, out := onSpool(t, dir, append(append([]string{"import", "-f", "sonar-csv"}, c.args...), file)...)
		made, err := filepath.Glob(filepath.Join(dir, "*.db"))
		if err != nil || status != c.status || !strings.Contains(out, c.text) || len(made) > c.atMost || c.everything && len(made) != 300 {
			t.Errorf("%q: status %d, %d runs, %v, %s", c.args, status, len(made), err, out[max(0, len(out)-300):])
		}
	}
}
