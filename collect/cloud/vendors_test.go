package cloud

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// answers are what a metadata service says, by method and path.
type answers map[string]string

// with returns the answers with one changed; an empty text removes it.
func (a answers) with(request, text string) answers {
	a = maps.Clone(a)
	if a[request] = text; text == "" {
		delete(a, request)
	}
	return a
}

// guard checks what a service requires of a request in addition to its path.
type guard func(*http.Request) bool

func open(*http.Request) bool { return true }

func needs(name, value string) guard {
	return func(r *http.Request) bool { return r.Method == http.MethodPut || r.Header.Get(name) == value }
}

// serve starts a metadata service on loopback that all vendors' addresses lead to.
// It returns what was asked of it, too.
func serve(t *testing.T, a answers, allow guard, header http.Header) (*Prober, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		mu.Unlock()
		maps.Copy(w.Header(), header)
		text, ok := a[r.Method+" "+r.URL.RequestURI()]
		switch {
		case !ok:
			http.NotFound(w, r)
		case !allow(r):
			http.Error(w, "no", http.StatusUnauthorized)
		case strings.HasPrefix(text, "status "):
			w.WriteHeader(int(text[7]-'0')*100 + int(text[8]-'0')*10 + int(text[9]-'0'))
		default:
			_, _ = w.Write([]byte(text)) // a client that has gone fails its own test
		}
	}))
	t.Cleanup(server.Close)
	return &Prober{Endpoints: Endpoints{LinkLocal: server.URL, Google: server.URL, Alibaba: server.URL}}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(asked)
	}
}

var (
	awsAnswers = answers{
		"PUT /latest/api/token":                               "secret-token==\n",
		"GET /latest/meta-data/services/domain":               "amazonaws.com",
		"GET /latest/meta-data/instance-type":                 "m7i.2xlarge",
		"GET /latest/meta-data/placement/region":              "eu-west-1",
		"GET /latest/meta-data/placement/availability-zone":   "eu-west-1b",
		"GET /latest/meta-data/identity-credentials/ec2/info": `{"Code":"Success","LastUpdated":"2026-03-01T12:00:00Z","AccountId":"123456789012"}`,
	}
	awsToken = needs("X-aws-ec2-metadata-token", "secret-token==")
	aws      = rt.Host{
		CloudVendorID: "aws", CloudAccountID: "123456789012", CloudRegionID: "eu-west-1",
		CloudZoneID: "eu-west-1b", CloudInstanceType: "m7i.2xlarge",
	}

	googleAnswers = answers{
		"GET /computeMetadata/v1/instance/zone":         "projects/1234/zones/europe-west4-a",
		"GET /computeMetadata/v1/instance/machine-type": "projects/1234/machineTypes/n2-standard-4",
		"GET /computeMetadata/v1/project/project-id":    "example.com:lab-7",
	}
	google       = needs("Metadata-Flavor", "Google")
	googleHeader = http.Header{"Metadata-Flavor": {"Google"}}

	azureAnswers = answers{
		"GET /metadata/instance/compute?api-version=2021-02-01&format=json": `{"azEnvironment":"AzurePublicCloud","location":"westeurope","zone":"2",
			"subscriptionId":"8d10da13-8125-4ba9-a717-bf7490507b3d","vmSize":"Standard_D2s_v5","userData":"` + strings.Repeat("QUFB", 20000) + `"}`,
	}
	azure = needs("Metadata", "true")

	hetznerAnswers = answers{
		"GET /hetzner/v1/metadata/instance-id":       "42001337",
		"GET /hetzner/v1/metadata/region":            "eu-central\n",
		"GET /hetzner/v1/metadata/availability-zone": "fsn1-dc14",
	}
	upcloudAnswers = answers{
		"GET /metadata/v1.json": `{"cloud_name":"upcloud","instance_id":"00133ef9","region":"fi-hel1","public_keys":["ssh-ed25519 AAAA a b"]}`,
	}
	vultrAnswers = answers{
		"GET /v1.json": `{"instanceid":"42001337","instance-v2-id":"a9b1","hostname":"vm","region":{"regioncode":"EWR"},"interfaces":[]}`,
	}
	ovhAnswers = answers{
		"GET /openstack/latest/network_data.json": `{"links":[],"services":[{"type":"ntp","address":"213.186.33.99"},{"type":"dns","address":"213.186.33.99"}]}`,
		"GET /openstack/latest/meta_data.json":    `{"availability_zone":"eu-west-par-b","project_id":"6f70656e737461636b20342065766572","name":"x"}`,
		"GET /latest/meta-data/instance-type":     "b3-8",
	}
	alibabaAnswers = answers{
		"PUT /latest/api/token":                        "ali-token",
		"GET /latest/meta-data/instance/instance-type": "ecs.ebmg7.32xlarge",
		"GET /latest/meta-data/region-id":              "cn-hangzhou",
		"GET /latest/meta-data/zone-id":                "cn-hangzhou-i",
		"GET /latest/meta-data/owner-account-id":       "1609123456789012",
	}
	aliToken = needs("X-aliyun-ecs-metadata-token", "ali-token")
)

// Every vendor is found among all, by its own answers.
func TestVendors(t *testing.T) {
	v1 := func(r *http.Request) bool { return r.Header.Get("X-aws-ec2-metadata-token") == "" }
	for _, tc := range []struct {
		name    string
		answers answers
		allow   guard
		header  http.Header
		want    rt.Host
	}{
		{"aws", awsAnswers, awsToken, nil, aws},
		{"aws without sessions", awsAnswers.with("PUT /latest/api/token", ""), v1, nil, aws},
		{"aws that forbids sessions", awsAnswers.with("PUT /latest/api/token", "status 403"), v1, nil, aws},
		{"aws that has no such method", awsAnswers.with("PUT /latest/api/token", "status 405"), v1, nil, aws},
		{"aws in China", awsAnswers.with("GET /latest/meta-data/services/domain", "amazonaws.com.cn"), awsToken, nil, aws},
		{"aws bare metal", awsAnswers.with("GET /latest/meta-data/instance-type", "m7i.metal-24xl"), awsToken, nil,
			rt.Host{HostAllocation: "dedicated", CloudVendorID: "aws", CloudAccountID: aws.CloudAccountID,
				CloudRegionID: aws.CloudRegionID, CloudZoneID: aws.CloudZoneID, CloudInstanceType: "m7i.metal-24xl"}},
		{"aws dedicated host", awsAnswers.with("GET /latest/meta-data/placement/host-id", "h-0da999999f9999fb9"), awsToken, nil,
			rt.Host{HostAllocation: "dedicated", CloudVendorID: "aws", CloudAccountID: aws.CloudAccountID,
				CloudRegionID: aws.CloudRegionID, CloudZoneID: aws.CloudZoneID, CloudInstanceType: aws.CloudInstanceType}},
		{"aws with one wrong value", awsAnswers.with("GET /latest/meta-data/placement/region", "<html>eu</html>"), awsToken, nil,
			rt.Host{CloudVendorID: "aws", CloudAccountID: aws.CloudAccountID, CloudZoneID: aws.CloudZoneID, CloudInstanceType: aws.CloudInstanceType}},
		{"gcp", googleAnswers, google, googleHeader, rt.Host{CloudVendorID: "gcp", CloudAccountID: "example.com:lab-7",
			CloudRegionID: "europe-west4", CloudZoneID: "europe-west4-a", CloudInstanceType: "n2-standard-4"}},
		{"azure", azureAnswers, azure, nil, rt.Host{CloudVendorID: "azure", CloudAccountID: "8d10da13-8125-4ba9-a717-bf7490507b3d",
			CloudRegionID: "westeurope", CloudZoneID: "2", CloudInstanceType: "Standard_D2s_v5"}},
		{"hetzner", hetznerAnswers, open, nil, rt.Host{CloudVendorID: "hcloud", CloudRegionID: "eu-central", CloudZoneID: "fsn1-dc14"}},
		{"upcloud", upcloudAnswers, open, nil, rt.Host{CloudVendorID: "upcloud", CloudRegionID: "fi-hel1"}},
		{"vultr", vultrAnswers, open, nil, rt.Host{CloudVendorID: "vultr", CloudRegionID: "EWR"}},
		{"vultr with the newer id", answers{"GET /v1.json": `{"instance-v2-id":"a9b1","region":{"regioncode":"unknown"}}`}, open, nil, rt.Host{CloudVendorID: "vultr"}},
		{"ovh", ovhAnswers, open, nil, rt.Host{CloudVendorID: "ovh", CloudAccountID: "6f70656e737461636b20342065766572",
			CloudRegionID: "eu-west-par", CloudZoneID: "eu-west-par-b", CloudInstanceType: "b3-8"}},
		{"ovh with one zone", ovhAnswers.with("GET /openstack/latest/meta_data.json", `{"availability_zone":"nova"}`), open, nil,
			rt.Host{CloudVendorID: "ovh", CloudInstanceType: "b3-8"}},
		{"alibaba bare metal", alibabaAnswers, aliToken, nil, rt.Host{HostAllocation: "dedicated", CloudVendorID: "alicloud", CloudAccountID: "1609123456789012",
			CloudRegionID: "cn-hangzhou", CloudZoneID: "cn-hangzhou-i", CloudInstanceType: "ecs.ebmg7.32xlarge"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := serve(t, tc.answers, tc.allow, tc.header)
			got := p.Probe(t.Context(), All())
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A service that is not the vendor's metadata service is not recognised.
func TestImpostors(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers answers
		allow   guard
		header  http.Header
	}{
		{"nothing", answers{}, open, nil},
		{"aws with another domain", awsAnswers.with("GET /latest/meta-data/services/domain", "cloud.example"), awsToken, nil},
		{"aws that fails to make a token", awsAnswers.with("PUT /latest/api/token", "status 500"), open, nil},
		{"aws that redirects", awsAnswers.with("PUT /latest/api/token", "status 302"), open, nil},
		{"aws with an empty token", awsAnswers.with("PUT /latest/api/token", " \n"), open, nil},
		{"aws with a huge token", awsAnswers.with("PUT /latest/api/token", strings.Repeat("x", 1025)), open, nil},
		{"aws with a token that splits a header", awsAnswers.with("PUT /latest/api/token", "a\r\nX-Evil: 1"), open, nil},
		{"google without its mark", googleAnswers, google, nil},
		{"google with no zone", googleAnswers.with("GET /computeMetadata/v1/instance/zone", "europe"), google, googleHeader},
		{"azure that is no JSON", answers{"GET /metadata/instance/compute?api-version=2021-02-01&format=json": "<html>"}, azure, nil},
		{"azure without its environment", answers{"GET /metadata/instance/compute?api-version=2021-02-01&format=json": `{"vmSize":"A1"}`}, azure, nil},
		{"azure that never ends", answers{"GET /metadata/instance/compute?api-version=2021-02-01&format=json": `{"azEnvironment":"AzurePublicCloud","vmSize":"A1","x":"` + strings.Repeat("x", maxAnswer) + `"}`}, azure, nil},
		{"hetzner with an id that is no number", hetznerAnswers.with("GET /hetzner/v1/metadata/instance-id", "i-42"), open, nil},
		{"another cloud at upcloud's path", answers{"GET /metadata/v1.json": `{"droplet_id":1,"region":"nyc3"}`}, open, nil},
		{"another service at vultr's path", answers{"GET /v1.json": `{"id":"42001337","region":{"regioncode":"EWR"}}`}, open, nil},
		{"another OpenStack", ovhAnswers.with("GET /openstack/latest/network_data.json", `{"services":[{"type":"dns","address":"8.8.8.8"}]}`), open, nil},
		{"a host at alibaba's address", alibabaAnswers.with("GET /latest/meta-data/instance/instance-type", "t2.micro"), aliToken, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, _ := serve(t, tc.answers, tc.allow, tc.header)
			if got := p.Probe(t.Context(), All()); got != (rt.Host{}) {
				t.Errorf("taken for a cloud: %+v", got)
			}
		})
	}
}

// Only the vendors that were named are asked.
func TestOnlyNamedVendors(t *testing.T) {
	p, asked := serve(t, answers{}, open, nil)
	p.Probe(t.Context(), []Vendor{Hetzner})
	if d := cmp.Diff([]string{"GET /hetzner/v1/metadata/instance-id"}, asked()); d != "" {
		t.Errorf("requests (-want +got):\n%s", d)
	}
	if got := p.Probe(t.Context(), []Vendor{"unknown"}); got != (rt.Host{}) || len(asked()) != 1 {
		t.Errorf("of an unknown vendor: %+v, requests %v", got, asked())
	}
}

// A proxy that the environment names sees nothing of a machine's metadata.
func TestNoProxy(t *testing.T) {
	transport := (&Prober{}).transport()
	if transport.Proxy != nil {
		t.Error("metadata goes through a proxy")
	}
}

// A redirect is an answer like any other, and followed nowhere.
func TestNoRedirect(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the redirect was followed")
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	p := &Prober{Endpoints: Endpoints{server.URL, server.URL, server.URL}}
	if got := p.Probe(t.Context(), All()); got != (rt.Host{}) {
		t.Errorf("of redirects: %+v", got)
	}
}

func TestDefaultEndpoints(t *testing.T) {
	want := Endpoints{LinkLocal: "http://169.254.169.254", Google: "http://metadata.google.internal", Alibaba: "http://100.100.100.200"}
	if got := DefaultEndpoints(); got != want {
		t.Errorf("%+v", got)
	}
}

func TestProbeAfterCancel(t *testing.T) {
	p, _ := serve(t, awsAnswers, awsToken, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := p.Probe(ctx, All()); got != (rt.Host{}) {
		t.Errorf("of a probe that was called off: %+v", got)
	}
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"eu-west-1", "Standard_D2s_v5", "<html>", "a b", "", strings.Repeat("a", 257), "\xff", "a\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if got != "" && got != s {
			t.Errorf("%q became %q", s, got)
		}
		if len(got) > 256 || strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q passed", got)
		}
	})
}
