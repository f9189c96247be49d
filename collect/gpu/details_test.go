package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/resource-tracker/rt"
)

// TestAMDDetails: what a card shows, and a card that shows little.
func TestAMDDetails(t *testing.T) {
	sys := amdNode(t)
	for name, text := range map[string]string{
		"hwmon/hwmon3/fan1_input": "600\n", "hwmon/hwmon3/fan1_max": "3000\n", "hwmon/hwmon3/power1_cap": "300000000\n",
		"hwmon/hwmon3/power1_cap_min": "0\n", "hwmon/hwmon3/power1_cap_max": "350500000\n", "mem_busy_percent": "12\n",
		"power_dpm_force_performance_level": "auto\n", "pp_dpm_mclk": "0: 96Mhz\n1: 1600Mhz *\n2: what\n",
	} {
		if err := os.WriteFile(filepath.Join(sys, amdDriver, "0000:c1:00.0", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src := New(t.TempDir(), sys, WithDetails())
	src.maxWait = ample
	defer src.Close()
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	want := []Details{{
		UUID: "0000:c1:00.0", Fan: rt.Some[uint64](20), State: "auto", MemUtilization: rt.Some[uint64](12), MemClock: rt.Some[uint64](1600),
		PowerLimit: rt.Some(300.0), MinPowerLimit: rt.Some(0.0), MaxPowerLimit: rt.Some(350.5),
		MaxClock: rt.Some[uint64](1700), MaxMemClock: rt.Some[uint64](1600), Firmware: "113-D67301V-073",
	}, {UUID: "0000:e3:00.0", MaxClock: rt.Some[uint64](2482)}, {UUID: "0000:e4:00.0"}}
	if got := src.Details(); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if err := src.Read(&s); err != nil || len(src.Details()) != 3 {
		t.Errorf("once more: %v, %d", err, len(src.Details()))
	}
	plain := open(t, t.TempDir(), sys)
	if err := plain.Read(&s); err != nil || len(plain.Details()) != 0 {
		t.Errorf("without WithDetails: %v, %v", err, plain.Details())
	}
}
