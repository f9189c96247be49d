package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAllocation(t *testing.T) {
	const (
		virtual = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n"
		bare    = "processor\t: 0\nflags\t\t: fpu vme vmx\nvmx flags\t: vnmi hypervisor\n"
		arm     = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
		steal   = "cpu  1 2 3 4 5 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 80 0 0\n"
		noSteal = "cpu  1 2 3 4 5 6 7 0 0 0\ncpu0 1 2 3 4 5 6 7 80 0 0\n"
	)
	for name, tc := range map[string]struct {
		maker, product, stat, cpuinfo, want string
	}{
		"x86 with a hypervisor":       {cpuinfo: virtual, want: "shared"},
		"x86 of bare metal":           {"Dell Inc.", "PowerEdge R7625", noSteal, bare, "dedicated"},
		"time was stolen":             {stat: steal, cpuinfo: bare, want: "shared"},
		"arm64 that says nothing":     {"Ampere", "Altra", noSteal, arm, ""},
		"arm64 from which time is":    {stat: steal, cpuinfo: arm, want: "shared"},
		"arm64 of QEMU":               {"QEMU", "KVM Virtual Machine", noSteal, arm, "shared"},
		"graviton":                    {"Amazon EC2", "m7g.large", noSteal, arm, "shared"},
		"graviton of bare metal":      {"Amazon EC2", "m7g.metal", noSteal, arm, "dedicated"},
		"hyper-v":                     {"Microsoft Corporation", "Virtual Machine", "", arm, "shared"},
		"a real machine of microsoft": {"Microsoft Corporation", "Surface", "", bare, "dedicated"},
		"openstack":                   {"OpenStack Foundation", "OpenStack Nova", "", arm, "shared"},
		"an old kernel's stat":        {stat: "cpu  1 2 3 4\n", cpuinfo: bare, want: "dedicated"},
		"nothing":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{
				"proc/stat": tc.stat, "sys/class/dmi/id/sys_vendor": tc.maker, "sys/class/dmi/id/product_name": tc.product,
			} {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := NewRoots(dir+"/proc", dir+"/sys").allocation([]byte(tc.cpuinfo)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
