package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

// newMaker returns a Maker with a shell script in place of the process; $1 is the directory.
func newMaker(t *testing.T, script string) *Maker {
	t.Helper()
	return New(Maker{
		Open: func(_ context.Context, id string) (io.ReadCloser, error) {
			if id == "gone" {
				return nil, site.ErrNotFound
			}
			return io.NopCloser(strings.NewReader("record of " + id)), nil
		},
		Command: func(ctx context.Context, dir string) *exec.Cmd {
			return exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", dir)
		},
		Temp: t.TempDir(),
	})
}

func runsOf(ids ...string) (list []site.StoredRun) {
	for _, id := range ids {
		list = append(list, site.StoredRun{ID: id, Held: site.Held{RecordBytes: 10}})
	}
	return list
}

func TestMaker(t *testing.T) {
	large := runsOf("a")
	large[0].Held.RecordBytes = maxRecords + 1
	for _, c := range []struct {
		name, script string
		runs         []site.StoredRun
		want         string
		err          error
		message      string
	}{
		{"records", `cat "$1"/0.rtrec "$1"/1.rtrec; grep -o '"form":"[a-z]*"' "$1"/manifest.json`, runsOf("a", "b"), "record of arecord of b\"form\":\"html\"\n", nil, ""},
		{"a message", `echo the record is damaged >&2; exit 3`, runsOf("a"), "", nil, "exit status 3: the record is damaged"},
		{"a record that is gone", `ls "$1"; grep -c gone "$1"/manifest.json`, runsOf("a", "gone"), "0.rtrec\nmanifest.json\n1\n", nil, ""},
		{"no record can be read", `echo "rt-site: all are damaged" >&2; exit 65`, runsOf("a"), "", site.ErrNoReport, "there is no report: all are damaged"},
		{"too much output", `head -c 17000000 /dev/zero`, runsOf("a"), "", site.ErrNoReport, "16 MiB"},
		{"too many runs", `true`, make([]site.StoredRun, site.MaxReportRuns+1), "", site.ErrNoReport, "301 runs"},
		{"large records", `true`, large, "", site.ErrNoReport, "128 MiB"},
	} {
		m := newMaker(t, c.script)
		var out bytes.Buffer
		err := m.Write(t.Context(), &out, site.Report{Form: site.FormHTML, Name: "1", Runs: c.runs})
		isWrong := c.err != nil && !errors.Is(err, c.err)
		isSilent := c.message != "" && !strings.Contains(fmt.Sprint(err), c.message)
		isFailed := c.message == "" && err != nil
		if isWrong || isSilent || isFailed {
			t.Errorf("%s: error %v, want %v %s", c.name, err, c.err, c.message)
		}
		if c.message == "" && out.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, out.String(), c.want)
		}
		if left, err := os.ReadDir(m.Temp); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", c.name, left, err)
		}
	}
}

// If its reader has gone, the process is ended, and the next report is made.
func TestMakerEndsWithItsReader(t *testing.T) {
	m := newMaker(t, `echo begun; exec sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	out, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := m.Write(ctx, to, site.Report{Name: "1", Runs: runsOf("a")})
		ended <- err
	}()
	if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(t.Context())
	stop()
	if err := m.Write(waiting, io.Discard, site.Report{Name: "2", Runs: runsOf("a")}); !errors.Is(err, context.Canceled) {
		t.Errorf("a second report at the same time: %v", err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the report of a reader that has gone succeeds")
	}
	m.Command = func(ctx context.Context, _ string) *exec.Cmd { return exec.CommandContext(ctx, "/bin/echo", "next") }
	var next bytes.Buffer
	if err := m.Write(t.Context(), &next, site.Report{Name: "3"}); err != nil || next.String() != "next\n" {
		t.Errorf("the next report is %q, %v", next.String(), err)
	}
}

// A start removes what a process that was killed has left, and not what another one uses.
func TestMakerRemovesWhatIsLeft(t *testing.T) {
	temp := t.TempDir()
	old, fresh, other := filepath.Join(temp, "rt-report-1"), filepath.Join(temp, "rt-report-2"), filepath.Join(temp, "objects")
	for _, dir := range []string{old, fresh, other} {
		if err := os.MkdirAll(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := errors.Join(os.Chtimes(old, yesterday, yesterday), os.Chtimes(other, yesterday, yesterday)); err != nil {
		t.Fatal(err)
	}
	New(Maker{Temp: temp})
	for dir, want := range map[string]bool{old: false, fresh: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: is there: %t, want %t", filepath.Base(dir), err == nil, want)
		}
	}
}
