package cloud

import (
	"context"
	"net/http"
	"path"
	"slices"
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

// askVultr reads Vultr's metadata service, which has only the region. The id of an instance has one
// of two names. See "Metadata" in the Vultr API.
func askVultr(ctx context.Context, s *service, h *rt.Host) bool {
	var server struct {
		ID     string `json:"instanceid"`
		IDv2   string `json:"instance-v2-id"`
		Region struct {
			Code string `json:"regioncode"`
		} `json:"region"`
	}
	isVultr := s.document(ctx, "/v1.json", &server) && (server.ID != "" || server.IDv2 != "")
	if !isVultr {
		return false
	}
	if code := clean(server.Region.Code); code != "unknown" {
		h.CloudRegionID = code
	}
	return true
}

// ovhResolver is the name server of OVH's instances. The metadata of its OpenStack has no
// other sign of the vendor.
const ovhResolver = "213.186.33.99"

// askOVH reads the metadata service of OVH's public cloud, which is OpenStack's. The only
// zone of a region is called "nova". See "Metadata service" in the documentation of
// OpenStack Nova.
func askOVH(ctx context.Context, s *service, h *rt.Host) bool {
	type networkService struct{ Type, Address string }
	var network struct{ Services []networkService }
	if !s.document(ctx, "/openstack/latest/network_data.json", &network) {
		return false
	}
	if !slices.Contains(network.Services, networkService{"dns", ovhResolver}) {
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

// askAlibaba reads the metadata service of ECS, in its hardened mode if that is enabled.
// Its address may belong to another host on a private network, so the form of the instance
// type is checked. See "Instance metadata" in the ECS user guide.
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
