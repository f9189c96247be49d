//go:build cgo

package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// TestLibrary reads through the binding and a shared library, as on a node with a driver. A
// mock cannot show that symbols, structures and their versions agree with NVIDIA's header.
// The binding is for a process's life, so it is another process that tries.
func TestLibrary(t *testing.T) {
	const name = "RT_TEST_LIBRARY"
	if library := os.Getenv(name); library != "" {
		readLibrary(t, library)
		return
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	header := filepath.Join(strings.TrimSpace(string(dir)), "pkg/nvml")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-I", header, "-o", library, "testdata/nvml/nvml.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestLibrary$")
	cmd.Env = append(os.Environ(), name+"="+library)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "PASS\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func readLibrary(t *testing.T, library string) {
	src := with(&nvidia{lib: nvml.New(nvml.WithLibraryPath(library)), processes: true})
	src.maxWait = ample
	var events ledger
	WithTracked(Tracked{PIDs: pids(100, 101), Devices: "1", ByDevice: true, Event: events.take})(src)
	s := read(t, src)
	want := rt.GPUReading{
		UUID: "GPU-stub-0", Name: "Stub 0", Type: "GPU", Host: "0", InJob: rt.Some(true),
		Utilization: rt.Some(75.0), VRAMTotal: rt.Some[uint64](80 << 30), VRAMUsed: rt.Some[uint64](2 << 30),
		Temperature: rt.Some[uint64](41), Power: rt.Some(251.5), Frequency: rt.Some[uint64](1980), Cores: rt.Some[uint64](16896),
		Detail: map[string]string{"pci_bus_id": "00000000:41:00.0", "minor_number": "1",
			"driver_version": "570.1", "nvml_version": "12.570.1", "cuda_version": "12.8"},
	}
	if len(s.GPUs) != 2 {
		t.Fatalf("%+v", s.GPUs)
	}
	if diff := cmp.Diff(want, s.GPUs[0], insides); diff != "" {
		t.Error(diff)
	}
	if g := s.GPUs[1]; g.Utilization.Valid() || g.InJob.Or(true) || g.Detail["pci_bus_id"] != "00000000:42:00.0" {
		t.Errorf("the second: %+v", g)
	}
	processes := []rt.GPUProcessReading{
		{PID: 100, UUID: "GPU-stub-0", VRAMUsed: rt.Some[uint64](1 << 20), Utilization: rt.Some(60.0)},
		{PID: 101, UUID: "GPU-stub-0", VRAMUsed: rt.Some[uint64](2 << 20), Utilization: rt.Some(0.0)},
	}
	if diff := cmp.Diff(processes, s.GPUProcesses, insides); diff != "" {
		t.Error(diff)
	}
	wantUse(t, s.GPU, rt.Some(0.75), rt.Some[uint64](2<<30), rt.Some[uint64](1))
	events.want(t)
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}
