// Package cloud asks the metadata services of cloud vendors what section 8.2 of the
// specification says of a machine. It is the one source that uses the network, so
// nothing that runs in a job's way imports it.
package cloud

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Vendor is the value of cloud_vendor_id: the name that Spare Cores gives the vendor.
type Vendor string

// The vendors whose metadata services are known.
const (
	AWS     Vendor = "aws"
	GCP     Vendor = "gcp"
	Azure   Vendor = "azure"
	Hetzner Vendor = "hcloud"
	UpCloud Vendor = "upcloud"
	OVH     Vendor = "ovh"
	Alibaba Vendor = "alicloud"
)

// All returns every vendor that can be asked.
func All() []Vendor { return []Vendor{AWS, GCP, Azure, Hetzner, UpCloud, OVH, Alibaba} }

const (
	// vendorTimeout is for all requests to one vendor together (T-CLD-02).
	vendorTimeout = 2 * time.Second
	// probeTimeout is for all vendors, which are asked at the same time.
	probeTimeout = 2500 * time.Millisecond
)

// Endpoints are the base URLs of the services, without a slash at their ends.
type Endpoints struct {
	LinkLocal string // AWS, Azure, Hetzner, UpCloud and OVH
	Google    string
	Alibaba   string
}

// DefaultEndpoints returns where the vendors have their services.
func DefaultEndpoints() Endpoints {
	return Endpoints{
		LinkLocal: "http://169.254.169.254",
		Google:    "http://metadata.google.internal",
		Alibaba:   "http://100.100.100.200",
	}
}

// Prober asks metadata services.
type Prober struct {
	Endpoints Endpoints
	// Dial makes connections; nil means a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Probe asks the vendors at the same time and returns what the first of them says
// that knows this machine: its cloud_* fields, and host_allocation where the kind
// of instance decides it. Where none answers all fields are empty; that is no
// error, and neither is a field that a vendor does not tell. It takes 2.5 s at most.
func (p *Prober) Probe(ctx context.Context, vendors []Vendor) rt.Host {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	transport := p.transport()
	defer transport.CloseIdleConnections()
	answers := make(chan rt.Host, len(vendors)) // no goroutine waits for us
	for _, v := range vendors {
		go func() {
			answers <- guarded(func() rt.Host {
				ctx, cancel := context.WithTimeout(ctx, vendorTimeout)
				defer cancel()
				return p.ask(ctx, v, transport)
			})
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

// guarded turns a panic into no answer: a fault in one vendor's probe costs that
// vendor, and not the program.
func guarded(ask func() rt.Host) (h rt.Host) {
	defer func() {
		if recover() != nil {
			h = rt.Host{}
		}
	}()
	return ask()
}

// ask returns what one vendor says; nothing where this is not its machine.
func (p *Prober) ask(ctx context.Context, v Vendor, transport http.RoundTripper) rt.Host {
	var known func(context.Context, *service, *rt.Host) bool
	base := p.Endpoints.LinkLocal
	switch v {
	case AWS:
		known = askAWS
	case GCP:
		known, base = askGCP, p.Endpoints.Google
	case Azure:
		known = askAzure
	case Hetzner:
		known = askHetzner
	case UpCloud:
		known = askUpCloud
	case OVH:
		known = askOVH
	case Alibaba:
		known, base = askAlibaba, p.Endpoints.Alibaba
	default:
		return rt.Host{}
	}
	var h rt.Host
	if !known(ctx, newService(base, transport), &h) {
		return rt.Host{}
	}
	h.CloudVendorID = string(v)
	if bareMetal(h.CloudInstanceType) {
		h.HostAllocation = "dedicated"
	}
	return h
}

// bareMetal says whether it is one of the instance types without a hypervisor: AWS (m7i.metal-24xl),
// Google (c3-standard-192-metal), Alibaba (ecs.ebmg7.32xlarge, ecs.sccg7.32xlarge).
func bareMetal(instanceType string) bool {
	return strings.HasSuffix(instanceType, ".metal") || strings.Contains(instanceType, ".metal-") ||
		strings.HasSuffix(instanceType, "-metal") ||
		strings.HasPrefix(instanceType, "ecs.ebm") || strings.HasPrefix(instanceType, "ecs.scc")
}
