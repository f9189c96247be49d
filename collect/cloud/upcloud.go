package cloud

import (
	"context"

	"github.com/resource-tracker/rt"
)

// askUpCloud asks UpCloud's metadata service, which tells no more than the region:
// other vendors serve the same path, so it must name its cloud. See "Metadata
// service" in the UpCloud API.
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
