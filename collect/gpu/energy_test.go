//go:build cgo

package gpu

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/resource-tracker/rt"
)

// The energy of each GPU is counted from the first reading, in microjoules, across a new
// list of the GPUs and a restarted counter. A driver that does not count has none, and
// neither does a failed reading.
func TestTotalEnergy(t *testing.T) {
	srv := newServer(2, a100)
	n := &nvidia{lib: srv}
	src := with(n)
	src.maxWait = ample
	counted := []uint64{7_000, 9_000, 9_500, 100, 160}
	at := 0
	srv.devices[1].GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return counted[at], nvml.SUCCESS }
	for i, want := range []uint64{0, 2_000_000, 2_500_000, 2_500_000, 2_560_000} {
		at = i
		if i == 2 {
			n.list()
		}
		s := read(t, src)
		if len(s.Energy) != 2 || s.Energy[1] != (rt.EnergyReading{Source: "gpu", Domain: "GPU-0001", Kind: rt.EnergyGPU, Energy: rt.Some(want)}) {
			t.Errorf("reading %d: %+v, want %d", i, s.Energy, want)
		}
	}
	srv.devices[1].GetTotalEnergyConsumptionFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	if s := read(t, src); len(s.Energy) != 1 || s.Energy[0].Domain != "GPU-0000" {
		t.Errorf("a GPU that does not count: %+v", s.Energy)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}

	old := newServer(1, a100)
	old.lacks["nvmlDeviceGetTotalEnergyConsumption"] = true
	old.devices[0].GetTotalEnergyConsumptionFunc = nil // a call would panic
	src = with(&nvidia{lib: old})
	src.maxWait = ample
	if s := read(t, src); len(s.Energy) != 0 || !s.GPUs[0].Power.Valid() {
		t.Errorf("an old driver: %+v", s.Energy)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}
