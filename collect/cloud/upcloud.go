package cloud

import (
	"context"

	"github.com/resource-tracker/rt"
)

// askUpCloud reads UpCloud's metadata service, which has only the region. Other vendors use
// the same path, so the name of the cloud is checked. See "Metadata service" in the UpCloud
// API.
func askUpCloud(ctx context.Context, s *service, h *rt.Host) bool {
	var server struct {
		CloudName string `json:"cloud_name"`
		Region    string `json:"region"`
	}
	if !s.document(ctx, "/metadata/v1.json", &server) || server.CloudName != "upcloud" {
		return false
	}
	h.CloudRegionID = clean(server.Region)
	return true
}
