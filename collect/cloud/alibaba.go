package cloud

import (
	"context"
	"strings"

	"github.com/resource-tracker/rt"
)

// askAlibaba reads the metadata service of ECS, in its hardened mode if that is enabled. Its
// address may be that of another host on a private network, so the form of the instance type
// is checked. See "Instance metadata" in the ECS user guide.
func askAlibaba(ctx context.Context, s *service, h *rt.Host) bool {
	const meta = "/latest/meta-data/"
	if !s.authenticate(ctx, "/latest/api/token", "X-Aliyun-Ecs-Metadata-Token-Ttl-Seconds", "X-Aliyun-Ecs-Metadata-Token") {
		return false
	}
	h.CloudInstanceType = s.value(ctx, meta+"instance/instance-type")
	if !strings.HasPrefix(h.CloudInstanceType, "ecs.") {
		return false
	}
	h.CloudRegionID = s.value(ctx, meta+"region-id")
	h.CloudZoneID = s.value(ctx, meta+"zone-id")
	h.CloudAccountID = s.value(ctx, meta+"owner-account-id")
	return true
}
