package sys

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt/collect/proc"
	"github.com/resource-tracker/rt/format/ftdc"
)

func fixture(t *testing.T) proc.FS {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/proc.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	return proc.NewFS(dir, filepath.Join(dir, "sys"))
}

// record lets an FTDC record for n seconds and returns the values by name.
func record(t *testing.T, seconds int, add func(*ftdc.FTDC)) []map[string]float32 {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := ftdc.NewWithWriter(&file, slog.New(slog.DiscardHandler))
		add(f)
		f.Start()
		time.Sleep(time.Duration(seconds)*time.Second + time.Millisecond)
		f.StopAndJoin(context.Background())
	})
	data, err := ftdc.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]float32
	for _, d := range data {
		m := map[string]float32{}
		for _, r := range d.Readings {
			m[r.MetricName] = r.Value
		}
		out = append(out, m)
	}
	return out
}

func TestStats(t *testing.T) {
	fs := fixture(t)
	host, tree := NewHost(fs), NewTree(proc.NewFS("/proc", "/sys"), os.Getpid())
	defer host.Close()
	defer tree.Close()
	data := record(t, 1, func(f *ftdc.FTDC) {
		f.Add("tree", tree)
		f.Add("host", host)
	})
	if len(data) != 1 {
		t.Fatalf("%d data", len(data))
	}
	for name, want := range map[string]float32{
		"host.busy_ticks": 368, "host.all_ticks": 3408, "host.cpus": 1, "host.mem_total": 1000000 << 10, "host.mem_free": 500000 << 10,
		"host.mem_available": 750000 << 10, "host.net_rx_bytes": 5000000, "host.net_tx_bytes": 60000,
	} {
		if got, ok := data[0][name]; !ok || got != want {
			t.Errorf("%s is %v (recorded: %t), want %v", name, got, ok, want)
		}
	}
	if data[0]["tree.rss"] < 1<<20 {
		t.Errorf("the resident memory of this process is %v", data[0]["tree.rss"])
	}
	for _, name := range []string{"host.swap_free", "host.disk_read_bytes", "host.hugepages_free"} {
		if v, ok := data[0][name]; ok {
			t.Errorf("%s is not in the files and recorded as %v", name, v)
		}
	}
}

// What is cut, empty or gone is left out; nothing panics.
func TestStatsOfDamagedFiles(t *testing.T) {
	fs := fixture(t)
	var names []string
	err := filepath.WalkDir(fs.Proc, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, path)
		}
		return err
	})
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(text) {
			if err := os.WriteFile(name, text[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			host := NewHost(fs)
			host.Stats()
			host.Close()
		}
	}
	tree := NewTree(fs, 43)
	defer tree.Close()
	if s := tree.Stats().(map[string]uint64); len(s) != 0 {
		t.Errorf("figures of a process that is not there: %+v", s)
	}
}
