package cloud

import (
	"context"
	"strings"

	"github.com/resource-tracker/rt"
)

// askAWS reads the instance metadata service, version 2 if it is enabled. The services'
// domain (amazonaws.com, amazonaws.com.cn) distinguishes it from clouds with the same paths,
// such as OpenStack. See "Instance metadata categories" in the EC2 user guide.
func askAWS(ctx context.Context, s *service, h *rt.Host) bool {
	const meta = "/latest/meta-data/"
	if !s.authenticate(ctx, "/latest/api/token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "X-Aws-Ec2-Metadata-Token") {
		return false
	}
	if !strings.HasPrefix(s.value(ctx, meta+"services/domain"), "amazonaws.") {
		return false
	}
	h.CloudInstanceType = s.value(ctx, meta+"instance-type")
	h.CloudRegionID = s.value(ctx, meta+"placement/region")
	h.CloudZoneID = s.value(ctx, meta+"placement/availability-zone")
	var info struct{ AccountID string }
	if s.document(ctx, meta+"identity-credentials/ec2/info", &info) {
		h.CloudAccountID = clean(info.AccountID)
	}
	if s.value(ctx, meta+"placement/host-id") != "" { // only on Dedicated Hosts
		h.HostAllocation = "dedicated"
	}
	return true
}
