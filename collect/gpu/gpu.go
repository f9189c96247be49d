// Package gpu knows whether the node has a GPU.
package gpu

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt"
)

// Presence is the source of the GPU sums of a node that has no GPU: there they are
// zero, and the specification wants no GPU and no error (T-GPU-01). Where there is
// a GPU it fills nothing in, because only a driver can say what the GPU does.
//
// NVIDIA's driver has made /dev/nvidiactl; AMD's module has cards bound below
// /sys/bus/pci/drivers/amdgpu. Both are looked for once.
type Presence struct {
	dev, sys     string
	looked, have bool
}

// New returns the source for the devices below devRoot (/dev) and sysRoot (/sys).
func New(devRoot, sysRoot string) *Presence { return &Presence{dev: devRoot, sys: sysRoot} }

// Name is what the ledger calls the source.
func (p *Presence) Name() string { return "gpu" }

// Close has nothing to give back.
func (p *Presence) Close() error { return nil }

// Read fills the GPU sums of s.Node where the node has no GPU.
func (p *Presence) Read(s *rt.Snapshot) error {
	if !p.looked {
		p.looked, p.have = true, p.nvidia() || p.amd()
	}
	if !p.have {
		s.Node.GPUUsage.Set(0)
		s.Node.GPUVRAMUsed.Set(0)
		s.Node.GPUUtilized.Set(0)
	}
	return nil
}

func (p *Presence) nvidia() bool {
	_, err := os.Stat(filepath.Join(p.dev, "nvidiactl"))
	return err == nil
}

// amd looks for a PCI address (0000:c1:00.0) among the driver's entries.
func (p *Presence) amd() bool {
	if _, err := os.Stat(filepath.Join(p.sys, "module/amdgpu")); err != nil {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(p.sys, "bus/pci/drivers/amdgpu"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if strings.Count(e.Name(), ":") == 2 {
			return true
		}
	}
	return false
}
