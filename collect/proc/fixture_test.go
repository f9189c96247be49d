package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

// opts lets cmp look into values that may be absent.
var opts = cmp.AllowUnexported(
	rt.Opt[uint64]{}, rt.Opt[int64]{}, rt.Opt[float64]{}, rt.Opt[rt.CPUTimes]{},
)

// fixture writes testdata/node.txtar out, with the links that an archive cannot hold.
func fixture(t *testing.T) FS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/node.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"sys/class/net/eth0/device/driver": "../../../../bus/pci/drivers/ice",
		"sys/class/net/ib0/device/driver":  "../../../../bus/pci/drivers/mlx5_core",
		"sys/dev/block/259:1":              "../../block/nvme0n1/nvme0n1p1",
		"sys/dev/block/8:0":                "../../block/sda",
		"sys/class/block/dm-0":             "../../block/dm-0",
		"dev/dm-0":                         "/dev/null",
	} {
		path := filepath.Join(dir, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if link == "dev/dm-0" {
			write(t, path, "")
			continue
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	fs := NewFS(dir+"/proc", dir+"/sys")
	fs.Root = dir
	return fs
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

type reader interface {
	Read(*rt.Snapshot) error
	Close() error
}

// once reads a source and closes it.
func once(t *testing.T, src reader) rt.Snapshot {
	t.Helper()
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// files returns the texts of the fixture, as seeds.
func files(f *testing.F) map[string][]byte {
	f.Helper()
	a, err := txtar.ParseFile("testdata/node.txtar")
	if err != nil {
		f.Fatal(err)
	}
	out := map[string][]byte{}
	for _, file := range a.Files {
		if len(file.Data) == 0 {
			f.Fatalf("%s is an empty seed", file.Name)
		}
		out[file.Name] = file.Data
	}
	return out
}
