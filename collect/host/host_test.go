package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

// tree writes a fixture out and returns its roots.
func tree(t *testing.T, archive string) Roots {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	return Roots{Proc: dir + "/proc", Sys: dir + "/sys", Etc: dir + "/etc"}
}

func TestRead(t *testing.T) {
	const id = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	for _, tc := range []struct {
		archive string
		want    rt.Host
	}{
		{"testdata/x86-aws.txtar", rt.Host{
			HostID: "i-0123456789abcdef0", HostName: "ip-10-0-3-7", HostIP: "10.0.3.7", HostAllocation: "shared",
			VCPUs: rt.Some[uint64](2), CPUModel: "Intel(R) Xeon(R) Platinum 8488C",
			MemoryMiB: rt.Some[uint64](24105), StorageGB: rt.Some(501.131862016),
		}},
		{"testdata/arm64-bare.txtar", rt.Host{
			HostID: id, HostName: "n17", HostIP: "192.168.2.5",
			VCPUs: rt.Some[uint64](1), CPUModel: "ARM Neoverse-N1", MemoryMiB: rt.Some[uint64](1024),
		}},
	} {
		got := Read(tree(t, tc.archive))
		if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.archive, d)
		}
	}
}

func TestReadOfNothing(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if got := Read(Roots{Proc: none, Sys: none, Etc: none}); got != (rt.Host{}) {
		t.Errorf("of a machine that shows nothing: %+v", got)
	}
}

func TestReadThisMachine(t *testing.T) {
	h := Read(NewRoots("/proc", "/sys"))
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if h.HostName != name || h.VCPUs.Or(0) == 0 || h.MemoryMiB.Or(0) == 0 {
		t.Errorf("of this machine, %s: %+v", name, h)
	}
}

func TestBootID(t *testing.T) {
	r := tree(t, "testdata/x86-aws.txtar")
	if id, err := BootID(r.Proc); err != nil || id != "0f0e8d1c-5f0e-4a4f-9d3e-3a1b2c4d5e6f" {
		t.Errorf("BootID = %q, %v", id, err)
	}
	if _, err := BootID(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("BootID without the file: %v", err)
	}
}

func TestCPUModels(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n":            "POWER9, altivec supported",
		"processor\t: 0\nCPU implementer\t: 0x46\nCPU part\t: 0x001\n":    "Fujitsu A64FX",
		"processor\t: 0\nCPU implementer\t: 0x99\nCPU part\t: 0x123\n":    "ARM implementer 0x99 part 0x123",
		"processor\t: 0\nhart\t\t: 0\nuarch\t\t: sifive,u74-mc\n":         "sifive,u74-mc",
		"processor\t: 0\nmodel name\t: AMD EPYC 9654 96-Core Processor\n": "AMD EPYC 9654 96-Core Processor",
		"": "",
	} {
		if _, got := parseCPUInfo([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzParsers(f *testing.F) {
	seeds := 0
	for _, name := range []string{"testdata/x86-aws.txtar", "testdata/arm64-bare.txtar"} {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
			seeds++
		}
	}
	if seeds < 10 {
		f.Fatalf("only %d seeds", seeds)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		vcpus, _ := parseCPUInfo(b)
		if n, ok := vcpus.Get(); ok && n == 0 {
			t.Error("no processor is not a number of processors")
		}
		if hypervisor, known := parseHypervisor(b); hypervisor && !known {
			t.Error("a flag was found where there are none")
		}
		hasSteal(b)
		parseMemTotal(b)
		for _, a := range parseLocalAddrs(b) {
			if !a.Is4() || a.IsLoopback() {
				t.Errorf("%v is no address of this node", a)
			}
		}
		for _, p := range defaultSubnets(parseRoutes(b)) {
			if !p.IsValid() || p.Bits() == 0 {
				t.Errorf("%v is no subnet", p)
			}
		}
	})
}
