// Package cloud reads facts about a machine from the metadata services of cloud vendors. Section
// 8.2 of the specification lists the facts. This package is the only source that uses the network,
// so no program that can delay a job imports it.
package cloud

import (
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Vendor is the value of cloud_vendor_id: the name of the vendor at Spare Cores.
type Vendor string

// The vendors with a known metadata service.
const (
	AWS     Vendor = "aws"
	GCP     Vendor = "gcp"
	Azure   Vendor = "azure"
	Hetzner Vendor = "hcloud"
	UpCloud Vendor = "upcloud"
	OVH     Vendor = "ovh"
	Alibaba Vendor = "alicloud"
	Vultr   Vendor = "vultr"
)

// questions report whether a service is the vendor's on this machine, and fill the fields.
var questions = map[Vendor]func(context.Context, *service, *rt.Host) bool{
	AWS: askAWS, GCP: askGCP, Azure: askAzure, Hetzner: askHetzner,
	UpCloud: askUpCloud, OVH: askOVH, Alibaba: askAlibaba, Vultr: askVultr,
}

// All returns every known vendor.
func All() []Vendor { return slices.Sorted(maps.Keys(questions)) }

const (
	// vendorTimeout limits all requests to one vendor together (T-CLD-02).
	vendorTimeout = 2 * time.Second
	// probeTimeout limits the requests to all vendors, which run at the same time.
	probeTimeout = 2500 * time.Millisecond
)

// Endpoints are the base URLs of the services, without a slash at their ends.
type Endpoints struct {
	LinkLocal string // of all vendors except Google and Alibaba
	Google    string
	Alibaba   string
}

// DefaultEndpoints returns the vendors' addresses.
func DefaultEndpoints() Endpoints {
	return Endpoints{
		LinkLocal: "http://169.254.169.254",
		Google:    "http://metadata.google.internal",
		Alibaba:   "http://100.100.100.200",
	}
}

// Prober reads metadata services.
type Prober struct {
	Endpoints Endpoints
	// Dial opens connections; nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Probe sends requests to all vendors at the same time and returns the answer of the first vendor
// that recognises this machine. The answer has the cloud_* fields. For a bare-metal instance type
// and on a Dedicated Host of AWS it also has host_allocation = dedicated. Without an answer all
// fields are empty. A field that the vendor does not have is empty, too. Probe takes 2.5 s at most.
func (p *Prober) Probe(ctx context.Context, vendors []Vendor) rt.Host {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	transport := p.transport()
	defer transport.CloseIdleConnections()
	answers := make(chan rt.Host, len(vendors)) // so that no goroutine blocks
	for _, v := range vendors {
		go func() {
			defer recovery.Handle(func(error) { answers <- rt.Host{} })
			ctx, cancel := context.WithTimeout(ctx, vendorTimeout)
			defer cancel()
			answers <- p.ask(ctx, v, transport)
		}()
	}
	for range vendors {
		select {
		case h := <-answers:
			if h.CloudVendorID != "" {
				return h
			}
		case <-ctx.Done():
			return rt.Host{}
		}
	}
	return rt.Host{}
}

// ask returns the answer of one vendor; empty if this is not its machine.
func (p *Prober) ask(ctx context.Context, v Vendor, transport http.RoundTripper) rt.Host {
	base := p.Endpoints.LinkLocal
	switch v {
	case GCP:
		base = p.Endpoints.Google
	case Alibaba:
		base = p.Endpoints.Alibaba
	}
	var h rt.Host
	if !questions[v](ctx, newService(base, transport), &h) {
		return rt.Host{}
	}
	h.CloudVendorID = string(v)
	if isBareMetal(h.CloudInstanceType) {
		h.HostAllocation = "dedicated"
	}
	return h
}

// isBareMetal recognises the instance types without a hypervisor: AWS (m7i.metal-24xl),
// Google (c3-standard-192-metal), Alibaba (ecs.ebmg7.32xlarge, ecs.sccg7.32xlarge).
func isBareMetal(instanceType string) bool {
	return strings.HasSuffix(instanceType, ".metal") || strings.Contains(instanceType, ".metal-") ||
		strings.HasSuffix(instanceType, "-metal") ||
		strings.HasPrefix(instanceType, "ecs.ebm") || strings.HasPrefix(instanceType, "ecs.scc")
}

// Suspects returns the vendor that the firmware names in <sysRoot>/class/dmi/id, or all vendors if
// it names none. If the vendor is known, no requests are sent to the services of the others, which
// would not answer.
func Suspects(sysRoot string) []Vendor {
	dmi := func(name string) string { return procfile.Text(sysRoot, "class/dmi/id", name) }
	maker, product := dmi("sys_vendor"), dmi("product_name")
	switch {
	case maker == "Amazon EC2", strings.Contains(strings.ToLower(dmi("bios_version")), "amazon"): // the latter with Xen
		return []Vendor{AWS}
	case maker == "Google" && product == "Google Compute Engine":
		return []Vendor{GCP}
	case dmi("chassis_asset_tag") == azureTag:
		return []Vendor{Azure}
	case maker == "Hetzner":
		return []Vendor{Hetzner}
	case maker == "UpCloud":
		return []Vendor{UpCloud}
	case maker == "Vultr":
		return []Vendor{Vultr}
	case strings.HasPrefix(maker, "Alibaba Cloud"):
		return []Vendor{Alibaba}
	case strings.HasPrefix(product, "OpenStack"):
		return []Vendor{OVH}
	}
	return All()
}

// azureTag is the asset tag of every chassis in Azure. The vendor in sys_vendor does not show
// Azure, because it is Microsoft Corporation for every Hyper-V guest.
const azureTag = "7783-7084-3265-9085-8269-3286-77"
