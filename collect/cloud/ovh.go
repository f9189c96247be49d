package cloud

import (
	"context"

	"github.com/resource-tracker/rt"
)

// ovhResolver is the name server of OVH's instances. The metadata of its OpenStack has no
// other sign of the vendor.
const ovhResolver = "213.186.33.99"

// askOVH reads the metadata service of OVH's public cloud, which is OpenStack's. The only
// zone of a region is called "nova". See "Metadata service" in the documentation of
// OpenStack Nova.
func askOVH(ctx context.Context, s *service, h *rt.Host) bool {
	var network struct {
		Services []struct{ Type, Address string }
	}
	if !s.document(ctx, "/openstack/latest/network_data.json", &network) {
		return false
	}
	isOVH := false
	for _, service := range network.Services {
		if service.Type == "dns" && service.Address == ovhResolver {
			isOVH = true
		}
	}
	if !isOVH {
		return false
	}
	var meta struct {
		Zone    string `json:"availability_zone"`
		Project string `json:"project_id"`
	}
	if s.document(ctx, "/openstack/latest/meta_data.json", &meta) {
		h.CloudAccountID = clean(meta.Project)
		if zone := clean(meta.Zone); zone != "nova" {
			h.CloudZoneID = zone
			h.CloudRegionID = regionOf(zone)
		}
	}
	h.CloudInstanceType = s.value(ctx, "/latest/meta-data/instance-type")
	return true
}

// regionOf removes the suffix of a zone from its name: eu-west-par-a.
func regionOf(zone string) string {
	n := len(zone)
	if n > 2 && zone[n-2] == '-' && zone[n-1] >= 'a' && zone[n-1] <= 'z' {
		return zone[:n-2]
	}
	return zone
}
