package gpu

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestPresence(t *testing.T) {
	for _, tc := range []struct {
		name  string
		paths []string
		have  bool
	}{
		{"no GPU", nil, false},
		{"NVIDIA", []string{"dev/nvidiactl"}, true},
		{"AMD", []string{"sys/module/amdgpu/version", "sys/bus/pci/drivers/amdgpu/0000:c1:00.0/uevent"}, true},
		{"amdgpu loaded without a card", []string{"sys/module/amdgpu/version", "sys/bus/pci/drivers/amdgpu/bind"}, false},
		{"a card without its module", []string{"sys/bus/pci/drivers/amdgpu/0000:c1:00.0/uevent"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, p := range tc.paths {
				p = filepath.Join(dir, p)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			src := New(dir+"/dev", dir+"/sys")
			var s rt.Snapshot
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
			n := s.Node
			if n.GPUUsage.Valid() == tc.have || n.GPUVRAMUsed.Valid() == tc.have || n.GPUUtilized.Valid() == tc.have {
				t.Errorf("the sums are %v, %v, %v", n.GPUUsage, n.GPUVRAMUsed, n.GPUUtilized)
			}
			if len(s.GPUs) != 0 {
				t.Errorf("devices: %v", s.GPUs)
			}
		})
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	src := New(t.TempDir(), t.TempDir())
	var s rt.Snapshot
	read := func() {
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}
