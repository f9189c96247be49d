package cloud

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/resource-tracker/rt"
)

// askGCP reads Google's metadata server, which marks its answers with a header. Zone and
// machine type have the form projects/<number>/zones/<zone> and
// projects/<number>/machineTypes/<type>. See "About VM metadata" of Compute Engine.
func askGCP(ctx context.Context, s *service, h *rt.Host) bool {
	const meta = "/computeMetadata/v1/"
	s.send.Set("Metadata-Flavor", "Google")
	s.expect = http.Header{"Metadata-Flavor": {"Google"}}
	zone := s.value(ctx, meta+"instance/zone")
	if !strings.Contains(zone, "/zones/") {
		return false
	}
	h.CloudZoneID = path.Base(zone)
	if i := strings.LastIndexByte(h.CloudZoneID, '-'); i > 0 {
		h.CloudRegionID = h.CloudZoneID[:i]
	}
	if machine := s.value(ctx, meta+"instance/machine-type"); machine != "" {
		h.CloudInstanceType = path.Base(machine)
	}
	h.CloudAccountID = s.value(ctx, meta+"project/project-id")
	return true
}
