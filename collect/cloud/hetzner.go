package cloud

import (
	"context"
	"strings"

	"github.com/resource-tracker/rt"
)

// askHetzner reads the server metadata of Hetzner Cloud, which has neither the project nor
// the type of the server. See "Server metadata" in its API reference.
func askHetzner(ctx context.Context, s *service, h *rt.Host) bool {
	const meta = "/hetzner/v1/metadata/"
	id := s.value(ctx, meta+"instance-id")
	if id == "" || strings.Trim(id, "0123456789") != "" {
		return false
	}
	h.CloudRegionID = s.value(ctx, meta+"region")
	h.CloudZoneID = s.value(ctx, meta+"availability-zone")
	return true
}
