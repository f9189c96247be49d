package cloud

import (
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Suspects returns the possible vendors: the one that the firmware names in
// <sysRoot>/class/dmi/id, else all. That avoids requests without an answer on the networks
// of other machines.
func Suspects(sysRoot string) []Vendor {
	dmi := func(name string) string { return procfile.Text(sysRoot, "class/dmi/id", name) }
	maker, product := dmi("sys_vendor"), dmi("product_name")
	switch {
	case maker == "Amazon EC2", strings.Contains(strings.ToLower(dmi("bios_version")), "amazon"): // the latter with Xen
		return []Vendor{AWS}
	case maker == "Google" && product == "Google Compute Engine":
		return []Vendor{GCP}
	case dmi("chassis_asset_tag") == azureTag:
		return []Vendor{Azure}
	case maker == "Hetzner":
		return []Vendor{Hetzner}
	case maker == "UpCloud":
		return []Vendor{UpCloud}
	case strings.HasPrefix(maker, "Alibaba Cloud"):
		return []Vendor{Alibaba}
	case strings.HasPrefix(product, "OpenStack"):
		return []Vendor{OVH}
	}
	return All()
}

// azureTag is the asset tag of every chassis in Azure. Its vendor, Microsoft Corporation, is
// that of every Hyper-V guest.
const azureTag = "7783-7084-3265-9085-8269-3286-77"
