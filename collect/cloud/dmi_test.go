package cloud

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSuspects(t *testing.T) {
	for name, tc := range map[string]struct {
		dmi  map[string]string
		want []Vendor
	}{
		"aws":             {map[string]string{"sys_vendor": "Amazon EC2", "product_name": "m7i.metal-24xl"}, []Vendor{AWS}},
		"aws with xen":    {map[string]string{"sys_vendor": "Xen", "bios_version": "4.11.amazon"}, []Vendor{AWS}},
		"gcp":             {map[string]string{"sys_vendor": "Google", "product_name": "Google Compute Engine"}, []Vendor{GCP}},
		"a chromebook":    {map[string]string{"sys_vendor": "Google", "product_name": "Eve"}, All()},
		"azure":           {map[string]string{"sys_vendor": "Microsoft Corporation", "chassis_asset_tag": azureTag}, []Vendor{Azure}},
		"other hyper-v":   {map[string]string{"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, All()},
		"hetzner":         {map[string]string{"sys_vendor": "Hetzner", "product_name": "vServer"}, []Vendor{Hetzner}},
		"upcloud":         {map[string]string{"sys_vendor": "UpCloud"}, []Vendor{UpCloud}},
		"vultr":           {map[string]string{"sys_vendor": "Vultr"}, []Vendor{Vultr}},
		"alibaba":         {map[string]string{"sys_vendor": "Alibaba Cloud", "product_name": "Alibaba Cloud ECS"}, []Vendor{Alibaba}},
		"some openstack":  {map[string]string{"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"}, []Vendor{OVH}},
		"a server":        {map[string]string{"sys_vendor": "Dell Inc.", "product_name": "PowerEdge R7625"}, All()},
		"nothing, an arm": {nil, All()},
	} {
		t.Run(name, func(t *testing.T) {
			sys := t.TempDir()
			dir := filepath.Join(sys, "class/dmi/id")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range tc.dmi {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(tc.want, Suspects(sys)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
