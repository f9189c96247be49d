package sentinel

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

const token = "tok-0123456789abcdef"

// service is a transport that answers in the place of the service.
type service struct {
	t       *testing.T
	answers func(path string, n int) (int, string, http.Header)
	paths   []string
	bodies  []map[string]any
}

func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	if got := r.Header.Get("Authorization"); got != "Bearer "+token {
		s.t.Errorf("%s %s: Authorization %q", r.Method, r.URL, got)
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("%s %s, %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		s.t.Errorf("%s: %v", text, err)
	}
	s.paths, s.bodies = append(s.paths, r.URL.String()), append(s.bodies, body)
	status, answer, header := s.answers(r.URL.Path, len(s.paths))
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

const registered = `{"run_id":"r1","upload_uri_prefix":"s3://b/p/","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t","expiration":"2026-03-01T12:00:00Z"}}`

func newClient(t *testing.T, dialect string, answers func(path string, n int) (int, string, http.Header)) (*Client, *service) {
	t.Helper()
	s := &service{t: t, answers: answers}
	c, err := New(Config{HTTP: &http.Client{Transport: s}, Endpoint: "https://api.example/v1/", Token: token + "\n", Dialect: dialect})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func always(status int, body string) func(string, int) (int, string, http.Header) {
	return func(string, int) (int, string, http.Header) { return status, body, nil }
}

var run = rt.Run{
	Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](12), Node: "n1"},
	Allocation: rt.Allocation{Scheduler: "slurm"},
	PID:        rt.Some[uint64](77),
	Command:    []string{"sh", "-c", `echo "a b"`},
	Meta:       rt.Metadata{JobName: "fit", Team: "physics", Tags: map[string]string{"slurm_user": "anna"}},
}

var host = rt.Host{
	HostName: "n1.example", HostAllocation: "dedicated", VCPUs: rt.Some[uint64](8), GPUVRAMMiB: rt.Some[uint64](81920),
	StorageGB: rt.Some(512.5), CloudVendorID: "aws",
}

func TestRegistrationsOfBothDialects(t *testing.T) {
	for dialect, want := range map[string]map[string]any{
		"spec": {
			"job_name": "fit", "team": "physics", "external_run_id": "c:12@n1#0", "tags": map[string]any{"slurm_user": "anna"}, "pid": 77.0,
			"host_name": "n1.example", "host_allocation": "dedicated", "host_vcpus": 8.0, "host_gpu_vram_mib": 81920.0,
			"host_storage_gb": 512.5, "cloud_vendor_id": "aws",
		},
		"live": {
			"job_name": "fit", "team": "physics", "external_run_id": "c:12@n1#0", "tags": map[string]any{"slurm_user": "anna"},
			"command":       `["sh","-c","echo \"a b\""]`,
			"host_hostname": "n1.example", "host_server_allocation": "dedicated", "host_vcpus": 8.0, "host_gpu_memory_mib": 81920.0,
			"host_storage_gb": 512.5, "cloud_vendor_id": "aws",
		},
	} {
		c, s := newClient(t, dialect, always(201, registered))
		got, err := c.Register(t.Context(), run, host)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, s.bodies[0]); d != "" {
			t.Errorf("%s (-want +got):\n%s", dialect, d)
		}
		if s.paths[0] != "https://api.example/v1/runs" || got.Dialect != dialect || got.RemoteID != "r1" || got.UploadURIPrefix != "s3://b/p" {
			t.Errorf("%s: %v, %+v", dialect, s.paths, got)
		}
		if !got.Credentials.Expiration.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: %v", dialect, got.Credentials)
		}
	}
}

func TestAutoLearnsTheDialect(t *testing.T) {
	c, s := newClient(t, "", func(_ string, n int) (int, string, http.Header) {
		if n == 1 {
			return 422, `{"detail":"unknown field pid"}`, nil
		}
		return 201, registered, nil
	})
	for range 2 {
		if got, err := c.Register(t.Context(), run, host); err != nil || got.Dialect != upload.DialectLive {
			t.Errorf("%+v, %v", got, err)
		}
	}
	var kinds []bool
	for _, b := range s.bodies {
		_, spec := b["pid"]
		kinds = append(kinds, spec)
	}
	if fmt.Sprint(kinds) != "[true false false]" {
		t.Errorf("registered as specified: %v", kinds)
	}
	for _, fixed := range []string{"spec", "live"} {
		c, s := newClient(t, fixed, always(422, `{"detail":"no"}`))
		if _, err := c.Register(t.Context(), run, host); kindOf(t, err) != upload.Permanent || len(s.paths) != 1 {
			t.Errorf("%s: %v, %v", fixed, err, s.paths)
		}
	}
}

func kindOf(t *testing.T, err error) upload.Kind {
	t.Helper()
	var e *upload.Error
	if !errors.As(err, &e) {
		t.Fatalf("not an upload.Error: %v", err)
	}
	return e.Kind
}

func TestFinishOfBothDialects(t *testing.T) {
	at := time.Date(2026, 3, 1, 13, 0, 0, 500e6, time.FixedZone("", 3600))
	for _, tc := range []struct {
		name string
		f    upload.Finish
		want map[string]any
	}{
		{"T-EOR-02, T-EOR-04", upload.Finish{Dialect: "spec", RemoteID: "r1", Status: "failed", ExitCode: rt.Some[int64](7), FinishedAt: at, URIs: []string{"s3://b/k"}},
			map[string]any{"run_id": "r1", "exit_code": 7.0, "run_status": "failed", "data_source": "s3", "data_uris": []any{"s3://b/k"}}},
		{"live", upload.Finish{Dialect: "live", RemoteID: "r1", Status: "finished", FinishedAt: at, URIs: []string{"s3://b/k"}},
			map[string]any{"exit_code": nil, "run_status": "finished", "finished_at": "2026-03-01T12:00:00.5Z", "data_source": "s3", "data_uris": []any{"s3://b/k"}}},
		{"live, inline", upload.Finish{Dialect: "live", RemoteID: "r1", Status: "finished", FinishedAt: at, CSV: []byte("a,b\n")},
			map[string]any{"exit_code": nil, "run_status": "finished", "finished_at": "2026-03-01T12:00:00.5Z", "data_source": "inline", "data_csv": "a,b\n"}},
	} {
		c, s := newClient(t, "", always(200, ""))
		if err := c.Finish(t.Context(), tc.f); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if d := cmp.Diff(tc.want, s.bodies[0]); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
		if s.paths[0] != "https://api.example/v1/runs/r1/finish" {
			t.Errorf("%s: %v", tc.name, s.paths)
		}
	}
}

func TestInlineDataIsBase64OfGzip(t *testing.T) {
	c, s := newClient(t, "", always(200, "{}"))
	for range 2 {
		if err := c.Finish(t.Context(), upload.Finish{Dialect: "spec", RemoteID: "r1", Status: "finished", CSV: []byte("a,b\n1,2\n")}); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := s.bodies[0]["data_csv"].(string)
	if s.bodies[0]["data_source"] != "inline" || s.bodies[1]["data_csv"] != text {
		t.Errorf("%v", s.bodies)
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	if csv, err := io.ReadAll(gz); err != nil || string(csv) != "a,b\n1,2\n" {
		t.Errorf("%q, %v", csv, err)
	}
}

func TestRefresh(t *testing.T) {
	for _, tc := range []struct{ expiry, want string }{
		{`"expiration":"2026-03-01T12:00:00Z"`, "2026-03-01T12:00:00Z"},
		{`"expires_at":"2026-03-01T13:00:00+01:00"`, "2026-03-01T12:00:00Z"},
		{`"expires_at":"2026-03-01T12:00:00.123456+00:00"`, "2026-03-01T12:00:00.123456Z"},
		{`"expires_at":"2026-03-01T12:00:00.5"`, "2026-03-01T12:00:00.5Z"},
		{`"expiration":null`, "0001-01-01T00:00:00Z"},
		{`"region":"eu-west-1"`, "0001-01-01T00:00:00Z"},
	} {
		c, s := newClient(t, "", always(200, `{"upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t",`+tc.expiry+`}}`))
		got, err := c.Refresh(t.Context(), "r1")
		if err != nil || got.Expiration.Format(time.RFC3339Nano) != tc.want || s.paths[0] != "https://api.example/v1/runs/r1/refresh-credentials" {
			t.Errorf("%s: %v, %v, %v", tc.expiry, got.Expiration, err, s.paths)
		}
	}
}

func TestErrorsAreClassifiedAndHoldNoSecret(t *testing.T) {
	for _, tc := range []struct {
		status     int
		retryAfter string
		register   upload.Kind
		other      upload.Kind
		wait       time.Duration
	}{
		{400, "", upload.Permanent, upload.Permanent, 0},
		{401, "", upload.Unauthorised, upload.Unauthorised, 0},
		{403, "", upload.Unauthorised, upload.Permanent, 0},
		{404, "", upload.Permanent, upload.Permanent, 0},
		{408, "", upload.Temporary, upload.Temporary, 0},
		{429, "30", upload.Temporary, upload.Temporary, 30 * time.Second},
		{500, "", upload.Temporary, upload.Temporary, 0},
		{503, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), upload.Temporary, upload.Temporary, time.Hour},
		{503, "soon", upload.Temporary, upload.Temporary, 0},
		{301, "", upload.Permanent, upload.Permanent, 0},
	} {
		c, _ := newClient(t, "spec", func(string, int) (int, string, http.Header) {
			return tc.status, "you sent " + token + "\x1b[31m\n" + strings.Repeat("x", 5000), http.Header{"Retry-After": {tc.retryAfter}, "Location": {"https://x/" + token}}
		})
		_, errRegister := c.Register(t.Context(), run, host)
		_, errRefresh := c.Refresh(t.Context(), "r1")
		errFinish := c.Finish(t.Context(), upload.Finish{RemoteID: "r1"})
		if kindOf(t, errRegister) != tc.register || kindOf(t, errRefresh) != tc.other || kindOf(t, errFinish) != tc.other {
			t.Errorf("%d: %v; %v; %v", tc.status, errRegister, errRefresh, errFinish)
		}
		var e *upload.Error
		if errors.As(errFinish, &e) && (e.Status != tc.status || e.RetryAfter > tc.wait || e.RetryAfter < tc.wait-time.Minute) {
			t.Errorf("%d: status %d, Retry-After %v", tc.status, e.Status, e.RetryAfter)
		}
		for _, err := range []error{errRegister, errRefresh, errFinish} {
			if s := err.Error(); strings.Contains(s, token) || strings.Contains(s, "\x1b") || len(s) > 1200 || !strings.Contains(s, "https://api.example/v1/runs") {
				t.Errorf("%d: %s", tc.status, s)
			}
		}
	}
}

func TestOnlyTheReceiverItselfSaysThatItDidNothing(t *testing.T) {
	for _, undone := range []bool{true, false} {
		c, _ := newClient(t, "spec", func(string, int) (int, string, http.Header) {
			h := http.Header{"Retry-After": {"5"}}
			if undone {
				h.Set(upload.HeaderUndone, "1")
			}
			return 503, "later", h
		})
		_, err := c.Register(t.Context(), run, host)
		var e *upload.Error
		if !errors.As(err, &e) || e.Undone != undone || e.RetryAfter != 5*time.Second {
			t.Errorf("%+v, %v", e, err)
		}
	}
}

// Only an error in the shape of the API's errors counts as the API's own, because gateways answer
// 404 too.
func TestOwnErrors(t *testing.T) {
	const absent = "no header"
	for _, tc := range []struct {
		kind, body string
		own        bool
	}{
		{"application/json", `{"detail":"there is no such run"}`, true},
		{"application/problem+json; charset=utf-8", `{"detail":[{"msg":"x"}]}`, true},
		{"application/json", `{"error":"gone"}`, true},
		{"application/json", `{"message":"no Route matched with those values"}`, false},
		{"application/json", `"detail"`, false},
		{"text/plain", `{"detail":"there is no such run"}`, false},
		{"text/html", "<html>default backend - 404</html>", false},
		{"", "", false},
		{"", `{"detail":"there is no such run"}`, true},
		{"", `{"message":"no Route matched with those values"}`, false},
		{"", `["detail"]`, false},
		{"", "<html>default backend - 404</html>", false},
		{absent, `{"detail":"there is no such run"}`, true},
		{absent, "404 page not found", false},
	} {
		c, _ := newClient(t, "spec", func(string, int) (int, string, http.Header) {
			if tc.kind == absent {
				return 404, tc.body, http.Header{"Content-Type": nil}
			}
			return 404, tc.body, http.Header{"Content-Type": {tc.kind}}
		})
		var e *upload.Error
		if err := c.Finish(t.Context(), upload.Finish{RemoteID: "r1"}); !errors.As(err, &e) || e.Own != tc.own || strings.Contains(err.Error(), "gateway") == tc.own {
			t.Errorf("%+v: %+v", tc, e)
		}
	}
}

func TestAClientNeverPrintsItsToken(t *testing.T) {
	c, _ := newClient(t, "", always(200, ""))
	if s := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(s, token) {
		t.Error(s)
	}
}

func TestNewRefusesBadConfiguration(t *testing.T) {
	for _, c := range []Config{
		{Token: ""}, {Token: " \n"}, {Token: "a b"}, {Token: "a\r\nX: y"}, {Token: token, Dialect: "new"},
		{Token: token, Endpoint: "api.example"}, {Token: token, Endpoint: "https://u:secretpw@h"}, {Token: token, Endpoint: "https://h/?q"},
		{Token: token, Endpoint: "https://u:secretpw@h:bad\x00"},
	} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "secretpw") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if c, err := New(Config{Token: token}); err != nil || c.Endpoint() != "https://api.sentinel.sparecores.net" {
		t.Errorf("%v", err)
	}
}

func FuzzParseRegistered(f *testing.F) {
	for _, s := range []string{registered, `{}`, `null`, `{"run_id":"..","upload_uri_prefix":"s3://b"}`, `{"extensions":{"rt.record":1},` + registered[1:]} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, err := parseRegistered(b)
		if err != nil {
			return
		}
		c := got.Credentials
		if strings.ContainsAny(got.RemoteID+got.UploadURIPrefix+c.AccessKey+c.SecretKey+c.SessionToken, " \r\n\x00") ||
			strings.Contains(got.RemoteID, "/") || !strings.HasPrefix(got.UploadURIPrefix, "s3://") || c.AccessKey == "" {
			t.Errorf("%+v", got)
		}
	})
}
