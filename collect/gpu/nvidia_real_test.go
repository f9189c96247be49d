//go:build cgo

package gpu

import (
	"math"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// TestAgainstNvidiaSMI compares with what nvidia-smi says in the same second.
func TestAgainstNvidiaSMI(t *testing.T) {
	smi, err := exec.LookPath("nvidia-smi")
	if err != nil || !exists("/dev/nvidiactl") || nvml.New().Init() != nvml.SUCCESS {
		t.Skip("no NVIDIA GPU on this machine")
	}
	src := open(t, "/dev", t.TempDir())
	var s rt.Snapshot
	if err := src.Read(&s); err != nil { // wakes the driver up
		t.Fatal(err)
	}
	out, err := exec.Command(smi, "--query-gpu=uuid,name,memory.total,memory.used,temperature.gpu,power.draw,pci.bus_id,driver_version,mig.mode.current",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	byUUID := map[string]*rt.GPUReading{}
	for i := range s.GPUs {
		byUUID[s.GPUs[i].UUID] = &s.GPUs[i]
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSpace(line), ", ")
		if len(f) != 9 {
			t.Fatalf("nvidia-smi says %q", line)
		}
		g := byUUID[f[0]]
		if g == nil {
			t.Errorf("GPU %s is missing", f[0])
			continue
		}
		if g.Name != f[1] || g.Detail["pci_bus_id"] != f[6] || g.Detail["driver_version"] != f[7] {
			t.Errorf("%+v, nvidia-smi: %q", g, line)
		}
		if f[8] != "Enabled" {
			near(t, f[0]+" memory.total", float64(g.VRAMTotal.Or(0))/(1<<20), f[2], 1)
			near(t, f[0]+" memory.used", float64(g.VRAMUsed.Or(0))/(1<<20), f[3], 64)
		}
		near(t, f[0]+" temperature", float64(g.Temperature.Or(0)), f[4], 3)
		near(t, f[0]+" power", g.Power.Or(0), f[5], 100)
		t.Logf("%+v\nnvidia-smi: %s", g, line)
	}
}

// near compares with what nvidia-smi says, unless that is "[N/A]".
func near(t *testing.T, what string, got float64, text string, tolerance float64) {
	t.Helper()
	want, err := strconv.ParseFloat(text, 64)
	if err == nil && math.Abs(got-want) > tolerance {
		t.Errorf("%s is %v, nvidia-smi: %v", what, got, want)
	}
}
