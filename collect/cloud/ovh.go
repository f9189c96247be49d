package cloud

import (
	"context"

	"github.com/resource-tracker/rt"
)

// ovhResolver is the name server that OVH gives its instances. Nothing else in the
// metadata of its OpenStack names the vendor.
const ovhResolver = "213.186.33.99"

// askOVH asks the metadata service of OVH's public cloud, which is OpenStack's. A
// region with one zone only calls that "nova". See "Metadata service" in the
// documentation of OpenStack Nova.
func askOVH(ctx context.Context, s *service, h *rt.Host) bool {
	var network struct {
		Services []struct{ Type, Address string }
	}
	if !s.document(ctx, "/openstack/latest/network_data.json", &network) {
		return false
	}
	found := false
	for _, service := range network.Services {
		found = found || service.Type == "dns" && service.Address == ovhResolver
	}
	if !found {
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

// regionOf drops what a zone's name has beyond its region's: eu-west-par-a.
func regionOf(zone string) string {
	n := len(zone)
	if n > 2 && zone[n-2] == '-' && zone[n-1] >= 'a' && zone[n-1] <= 'z' {
		return zone[:n-2]
	}
	return zone
}
