package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// fakeMachine is a host with one GPU in a cloud.
func fakeMachine(t *testing.T, vars map[string]string) *Machine {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"proc/sys/kernel/hostname": "n1", "proc/sys/kernel/random/boot_id": "boot-1", "etc/machine-id": "m-1",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Machine{
		Roots: Roots{Proc: dir + "/proc", Sys: dir + "/sys", Etc: dir + "/etc"},
		Env: func(name string) (string, bool) {
			v, ok := vars[name]
			return v, ok
		},
		GPUs: func(context.Context) []rt.GPUReading {
			return []rt.GPUReading{{Name: "H100", VRAMTotal: rt.Some[uint64](80 << 30)}}
		},
		Cloud: func(context.Context) rt.Host {
			return rt.Host{CloudVendorID: "ovh", CloudRegionID: "GRA11", CloudAccountID: "p"}
		},
	}
}

func TestFactsOfHost(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := fakeMachine(t, map[string]string{"TRACKER_HOST_GPU_MODEL": "0", "TRACKER_CLOUD_ACCOUNT_ID": "", "TRACKER_HOST_ID": "1"})
	got, err := m.Facts(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := Cache{
		BootID: "boot-1", CollectedAt: now, Suppressed: []string{"host_gpu_model", "cloud_account_id"},
		Host: rt.Host{HostID: "m-1", HostName: "n1", GPUCount: rt.Some[uint64](1), GPUVRAMMiB: rt.Some[uint64](80 << 10),
			CloudVendorID: "ovh", CloudRegionID: "GRA11"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Facts of an interrupted read do not replace the recorded ones.
func TestFactsCutShort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := fakeMachine(t, nil)
	m.Cloud = func(context.Context) rt.Host {
		cancel()
		return rt.Host{}
	}
	if _, err := m.Facts(ctx, time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	m.Roots.Proc = t.TempDir()
	if _, err := m.Facts(t.Context(), time.Now()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the id of this boot: %v", err)
	}
}
