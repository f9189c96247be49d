package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

const amdDriver = "bus/pci/drivers/amdgpu"

// amdNode writes testdata/amd.txtar out and returns the root /sys.
func amdNode(t testing.TB) string {
	t.Helper()
	a, err := txtar.ParseFile("testdata/amd.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAMD(t *testing.T) {
	src := open(t, t.TempDir(), amdNode(t))
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	want := []rt.GPUReading{{
		UUID: "0000:c1:00.0", Name: "AMD Instinct MI210", Type: "GPU", Host: "card1",
		Utilization: rt.Some(87.0), VRAMTotal: rt.Some[uint64](68702699520), VRAMUsed: rt.Some[uint64](12884901888),
		Temperature: rt.Some[uint64](43), Power: rt.Some(139.0), Frequency: rt.Some[uint64](1700),
		Detail: map[string]string{"pci_bus_id": "0000:c1:00.0", "device_id": "0x740f", "driver_version": "6.7.0",
			"unique_id": "1f2e3d4c5b6a7988", "vbios_version": "113-D67301V-073"},
	}, {
		UUID: "0000:e3:00.0", Name: "AMD GPU 0x744c", Type: "GPU", Host: "0000:e3:00.0",
		Utilization: rt.Some(0.0), VRAMTotal: rt.Some[uint64](25753026560), VRAMUsed: rt.Some[uint64](1024),
		Temperature: rt.Some[uint64](38), Power: rt.Some(15.5), Frequency: rt.Some[uint64](19),
		Detail: map[string]string{"pci_bus_id": "0000:e3:00.0", "device_id": "0x744c", "driver_version": "6.7.0"},
	}, {
		UUID: "0000:e4:00.0", Name: "AMD GPU 0x15bf", Type: "GPU", Host: "0000:e4:00.0",
		Detail: map[string]string{"pci_bus_id": "0000:e4:00.0", "device_id": "0x15bf", "driver_version": "6.7.0"},
	}}
	if diff := cmp.Diff(want, s.GPUs, insides); diff != "" {
		t.Error(diff)
	}
	if n := s.Node.GPUs; n != rt.Some[uint64](3) {
		t.Errorf("%v GPUs", n)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]()) // the third card says nothing
}

// The values are read again each time, through the held descriptors.
func TestAMDReadsAgain(t *testing.T) {
	sys := amdNode(t)
	src := open(t, t.TempDir(), sys)
	var s rt.Snapshot
	for _, busy := range []string{"87\n", "9\n", "100\n", "101\n", "nonsense\n", ""} {
		if err := os.WriteFile(filepath.Join(sys, amdDriver, "0000:c1:00.0/gpu_busy_percent"), []byte(busy), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		want, ok := procfile.Uint([]byte(strings.TrimSpace(busy)))
		got, read := s.GPUs[0].Utilization.Get()
		if read != (ok && want <= 100) || read && got != float64(want) {
			t.Errorf("%q was read as %v, %v", busy, got, read)
		}
	}
}

// A file that cannot be read costs that value, and the sum that it is part of.
func TestAMDUnreadable(t *testing.T) {
	sys := amdNode(t)
	file := filepath.Join(sys, amdDriver, "0000:c1:00.0/mem_info_vram_used")
	if err := os.RemoveAll(filepath.Join(sys, amdDriver, "0000:e4:00.0")); err != nil { // it has no values
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o755); err != nil { // opens, and fails with EISDIR when it is read
		t.Fatal(err)
	}
	var s rt.Snapshot
	err := open(t, t.TempDir(), sys).Read(&s)
	if err == nil || !strings.Contains(err.Error(), "0000:c1:00.0") || !strings.Contains(err.Error(), "mem_info_vram_used") {
		t.Errorf("the error does not say what: %v", err)
	}
	if g := s.GPUs[0]; g.VRAMUsed.Valid() || !g.Utilization.Valid() || !g.Power.Valid() {
		t.Errorf("the card: %+v", g)
	}
	wantSums(t, &s.Node, rt.Some(0.87), rt.None[uint64](), rt.Some[uint64](1))
}

func TestAMDWithoutItsModule(t *testing.T) {
	sys := amdNode(t)
	if err := os.RemoveAll(filepath.Join(sys, "module/amdgpu")); err != nil {
		t.Fatal(err)
	}
	src := open(t, t.TempDir(), sys)
	var s rt.Snapshot
	if err := src.Read(&s); err != nil || len(s.GPUs) != 0 || len(src.drivers) != 0 {
		t.Errorf("%v, %v, %d drivers", err, s.GPUs, len(src.drivers))
	}
}

func TestAMDAllocatesNothing(t *testing.T) {
	src := open(t, t.TempDir(), amdNode(t))
	var s rt.Snapshot
	read := func() {
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	read() // both buffers have grown
	if n := testing.AllocsPerRun(20, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}

func TestParseClock(t *testing.T) {
	for in, want := range map[string]rt.Opt[uint64]{
		"0: 500Mhz\n1: 1700Mhz *\n":      rt.Some[uint64](1700),
		"0: 500Mhz *\n1: 1700Mhz\n":      rt.Some[uint64](500),
		"S: 19Mhz *\n0: 500Mhz\n":        rt.Some[uint64](19),
		"1: 1700MHz *":                   rt.Some[uint64](1700),
		"":                               rt.None[uint64](),
		"0: 500Mhz\n1: 1700Mhz\n":        rt.None[uint64](),
		"1: Mhz *\n":                     rt.None[uint64](),
		"1: 1700 *\n":                    rt.None[uint64](),
		"*\n":                            rt.None[uint64](),
		"1: 99999999999999999999Mhz *\n": rt.None[uint64](),
	} {
		got, ok := parseClock([]byte(in))
		if ok != want.Valid() || ok && got != want.Or(0) {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
}

func FuzzParseClock(f *testing.F) {
	for _, seed := range []string{"0: 500Mhz\n1: 1700Mhz *\n", "S: 19Mhz *\n", "1: 1700 *", ":*", "*", "\n\n", "1: 18446744073709551616Mhz *"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		mhz, ok := parseClock(b)
		if ok && !strings.Contains(strings.ToLower(string(b)), "mhz") {
			t.Errorf("%q has no clock, and %d was read", b, mhz)
		}
	})
}
