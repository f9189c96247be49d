package cloud

import (
	"context"
	"strings"

	"github.com/resource-tracker/rt"
)

// askAzure reads the Azure instance metadata service. The zone is a number within the
// region, and missing for a machine without a zone. See "Azure Instance Metadata Service for
// virtual machines".
func askAzure(ctx context.Context, s *service, h *rt.Host) bool {
	s.send.Set("Metadata", "true")
	var compute struct {
		Environment    string `json:"azEnvironment"`
		Location       string `json:"location"`
		SubscriptionID string `json:"subscriptionId"`
		VMSize         string `json:"vmSize"`
		Zone           string `json:"zone"`
	}
	if !s.document(ctx, "/metadata/instance/compute?api-version=2021-02-01&format=json", &compute) {
		return false
	}
	if !strings.HasPrefix(compute.Environment, "Azure") || clean(compute.VMSize) == "" {
		return false
	}
	h.CloudAccountID = clean(compute.SubscriptionID)
	h.CloudRegionID = clean(compute.Location)
	h.CloudZoneID = clean(compute.Zone)
	h.CloudInstanceType = clean(compute.VMSize)
	return true
}
