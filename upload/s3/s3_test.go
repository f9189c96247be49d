package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt/upload"
)

var cred = upload.Credentials{
	AccessKey:    "ASIAEXAMPLEKEY00001",
	SecretKey:    "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
	SessionToken: "FwoGZXIvYXdzEXAMPLE//token+with=signs",
}

// roundTrip is a transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func newUploader(t *testing.T, c Config) *Uploader {
	t.Helper()
	u, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// T-S3-01: a URI is a bucket and a key.
func TestT_S3_01(t *testing.T) {
	for _, tc := range []struct{ uri, bucket, key string }{
		{"s3://bucket/path/obj", "bucket", "path/obj"},
		{"s3://b.c-d/k", "b.c-d", "k"},
		{"s3://bucket//k", "bucket", "/k"},
	} {
		bucket, key, err := ParseURI(tc.uri)
		if bucket != tc.bucket || key != tc.key || err != nil {
			t.Errorf("ParseURI(%q) = %q, %q, %v", tc.uri, bucket, key, err)
		}
	}
}

func mustRefuse(t *testing.T, uris ...string) {
	t.Helper()
	for _, uri := range uris {
		if bucket, key, err := ParseURI(uri); err == nil || bucket+key != "" {
			t.Errorf("ParseURI(%q) = %q, %q, %v", uri, bucket, key, err)
		}
	}
}

// T-S3-02: other schemes, and buckets that would be another host, are errors.
func TestT_S3_02(t *testing.T) {
	mustRefuse(t, "https://bucket/path", "S3://bucket/key", "bucket/path", "s3://evil@host/key", "s3://host:80/key", "")
}

// T-S3-03: so are an empty key and an empty bucket.
func TestT_S3_03(t *testing.T) {
	mustRefuse(t, "s3://bucket/", "s3://bucket", "s3:///key")
}

func FuzzParseURI(f *testing.F) {
	for _, s := range []string{"s3://bucket/path/obj", "s3://bucket/", "https://b/k", "s3://a/b%/ü"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		bucket, key, err := ParseURI(uri)
		if err != nil {
			return
		}
		if got := "s3://" + bucket + "/" + key; got != uri {
			t.Errorf("%q became %q", uri, got)
		}
		at := target{base: newURL(t, "https://h"), path: "/" + key}.url()
		if at.EscapedPath() != escapePath("/"+key) {
			t.Errorf("sent %q, signed %q", at.EscapedPath(), escapePath("/"+key))
		}
	})
}

// The golden values were computed with Python's hmac, the first one also with openssl.
func TestT_S3_04(t *testing.T) {
	for _, tc := range []struct {
		name, bucket, key, endpoint, region string
		cred                                upload.Credentials
		time                                time.Time
		body, want                          string
	}{
		{
			name: "virtual host", bucket: "metrics", key: "runs/r1/000001.csv.gz", region: "eu-central-1", cred: cred,
			time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), body: "timestamp\n1\n",
			want: "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLEKEY00001/20260102/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=55cd183085d66553fe4ee6347ad8af2e17c0b6f1d649752a9b7a04ffb7519eb5",
		},
		{
			name: "path style, port, a key that needs encoding, local time", bucket: "metrics", key: "a b+c=d%e/grün~é/000001.csv.gz",
			endpoint: "http://127.0.0.1:9000", region: "us-east-1", cred: cred,
			time: time.Date(2027, 1, 1, 1, 59, 59, 0, time.FixedZone("", 2*3600)), body: "",
			want: "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLEKEY00001/20261231/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature=0105055e5ce6d155559a39864d9443a258df63d84868abfc3e416a001bf95962",
		},
		{
			name: "no session token", bucket: "metrics", key: "k", region: "us-west-2",
			cred: upload.Credentials{AccessKey: "AKIAEXAMPLEKEY00002", SecretKey: "secret"},
			time: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), body: "x",
			want: "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLEKEY00002/20260601/us-west-2/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=881518a87f22e8dd2b49bd4c165dad3bf3ce3ae335b6a889c893bf07ede46bdc",
		},
	} {
		u := newUploader(t, Config{Endpoint: tc.endpoint, Region: tc.region})
		at, err := u.locate(t.Context(), tc.bucket, tc.key, "")
		if err != nil {
			t.Fatal(err)
		}
		req, err := newRequest(t.Context(), at, tc.cred, []byte(tc.body), tc.time)
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Header.Get("Authorization"); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
		if got := req.URL.EscapedPath(); got != escapePath(at.path) {
			t.Errorf("%s: sent path %s, signed %s", tc.name, got, escapePath(at.path))
		}
	}
}

// T-S3-05: a bucket's region is asked for once.
func TestT_S3_05(t *testing.T) {
	var heads, puts atomic.Int64
	hosts := sync.Map{}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			heads.Add(1)
			if r.URL.String() != "https://metrics.s3.amazonaws.com/" {
				t.Errorf("HEAD %s", r.URL)
			}
			return answer(403, "", "x-amz-bucket-region", "ap-south-1"), nil
		}
		puts.Add(1)
		hosts.Store(r.URL.Host, true)
		return answer(200, ""), nil
	})}
	u := newUploader(t, Config{HTTP: client})
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := u.Put(t.Context(), fmt.Sprintf("s3://metrics/k%d", i), cred, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if heads.Load() != 1 || puts.Load() != 16 {
		t.Errorf("%d HEAD, %d PUT requests; want 1, 16", heads.Load(), puts.Load())
	}
	if _, ok := hosts.Load("metrics.s3.ap-south-1.amazonaws.com"); !ok {
		t.Error("the objects did not go to the bucket's region")
	}
}

func TestRegionFallbacks(t *testing.T) {
	silent := errors.New("no route")
	for _, tc := range []struct {
		name           string
		config, inCred string
		head           func() (*http.Response, error)
		want           string
		heads          int
	}{
		{"configured", "us-east-2", "eu-west-1", nil, "us-east-2", 0},
		{"from the credentials", "", "eu-west-1", nil, "eu-west-1", 0},
		{"no header", "", "", func() (*http.Response, error) { return answer(404, ""), nil }, "eu-central-1", 1},
		{"a region that is a host name", "", "", func() (*http.Response, error) { return answer(200, "", "x-amz-bucket-region", "x.evil/"), nil }, "", 1},
		{"no answer", "", "", func() (*http.Response, error) { return nil, silent }, "", 1},
	} {
		heads, host := 0, ""
		u := newUploader(t, Config{Region: tc.config, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodHead {
				heads++
				return tc.head()
			}
			host = r.URL.Host
			return answer(200, ""), nil
		})}})
		c := cred
		c.Region = tc.inCred
		err := u.Put(t.Context(), "s3://metrics/k", c, nil)
		want := ""
		if tc.want != "" {
			want = "metrics.s3." + tc.want + ".amazonaws.com"
		}
		if host != want || heads != tc.heads || (err == nil) != (want != "") {
			t.Errorf("%s: sent to %q with %d HEADs, %v; want %q with %d", tc.name, host, heads, err, want, tc.heads)
		}
	}
}

// T-S3-06: an upload is one signed request, and its URI is good from then on.
func TestT_S3_06(t *testing.T) {
	body := []byte("\x1f\x8bnot really gzip")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if string(got) != string(body) || r.ContentLength != int64(len(body)) {
			t.Errorf("body %q, length %d", got, r.ContentLength)
		}
		if r.URL.EscapedPath() != "/base/metrics/a%20b/1%2B.csv.gz" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		for name, want := range map[string]string{"Content-Encoding": "gzip", "X-Amz-Security-Token": cred.SessionToken} {
			if r.Header.Get(name) != want {
				t.Errorf("%s: %q", name, r.Header.Get(name))
			}
		}
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+cred.AccessKey+"/") {
			t.Error("no signature")
		}
		w.WriteHeader(http.StatusCreated)
	}))
	defer srv.Close()
	u := newUploader(t, Config{HTTP: srv.Client(), Endpoint: srv.URL + "/base/"})
	if err := u.Put(t.Context(), "s3://metrics/a b/1+.csv.gz", cred, body); err != nil {
		t.Error(err)
	}
}

func TestErrorsAreClassifiedAndHoldNoSecret(t *testing.T) {
	leaky := "<Error><Code>%s</Code><Message>key " + cred.AccessKey + " is bad</Message><CanonicalRequest>" + cred.SessionToken +
		"</CanonicalRequest><CanonicalRequestBytes>46 77 6f 47</CanonicalRequestBytes></Error>"
	for _, tc := range []struct {
		name   string
		status int
		body   string
		kind   upload.Kind
		quote  string
	}{
		{"forbidden", 403, fmt.Sprintf(leaky, "SignatureDoesNotMatch"), upload.Unauthorised, "SignatureDoesNotMatch: key [redacted] is bad"},
		{"expired", 400, fmt.Sprintf(leaky, "ExpiredToken"), upload.Unauthorised, "ExpiredToken"},
		{"bad request", 400, "secret is " + cred.SecretKey, upload.Permanent, "secret is [redacted]"},
		{"other success", 204, "", upload.Permanent, "204"},
		{"redirect", 301, "", upload.Permanent, "301 Moved Permanently to https://elsewhere: redirects are not followed"},
		{"slow down", 503, "<Error><Code>SlowDown</Code><Message>later</Message></Error>", upload.Temporary, "SlowDown: later"},
		{"slow upload", 400, "<Error><Code>RequestTimeout</Code></Error>", upload.Temporary, "RequestTimeout"},
		{"damaged on the way", 400, "<Error><Code>XAmzContentSHA256Mismatch</Code></Error>", upload.Temporary, "XAmzContentSHA256Mismatch"},
		{"cut on the way", 400, "<Error><Code>IncompleteBody</Code></Error>", upload.Temporary, "IncompleteBody"},
		{"long", 500, strings.Repeat("ä\x00\n", 1<<16), upload.Temporary, "..."},
	} {
		u := newUploader(t, Config{Region: "us-east-1", HTTP: &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return answer(tc.status, tc.body, "Retry-After", "7", "Location", "https://elsewhere/"+cred.SecretKey), nil
		})}})
		err := u.Put(t.Context(), "s3://metrics/k", cred, []byte("x"))
		var e *upload.Error
		if !errors.As(err, &e) || e.Kind != tc.kind || e.Status != tc.status || e.RetryAfter != 7*time.Second {
			t.Errorf("%s: %#v", tc.name, err)
			continue
		}
		if code := element(tc.body, "Code"); e.Code != code {
			t.Errorf("%s: the code %q, want %q", tc.name, e.Code, code)
		}
		text := fmt.Sprintf("%v %+v", err, e)
		if !strings.Contains(text, tc.quote) || len(err.Error()) > 700 {
			t.Errorf("%s: %s", tc.name, err)
		}
		for _, secret := range []string{cred.AccessKey, cred.SecretKey, cred.SessionToken, "46 77 6f 47"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the error holds %q", tc.name, secret)
			}
		}
	}
}

func TestUnreachableStore(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	u := newUploader(t, Config{HTTP: &http.Client{}, Endpoint: srv.URL})
	err := u.Put(t.Context(), "s3://b/k", cred, nil)
	var e *upload.Error
	if !errors.As(err, &e) || e.Kind != upload.Temporary || !e.Unsent || e.Status != 0 {
		t.Errorf("%#v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Put(ctx, "s3://b/k", cred, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNewRefusesBadConfiguration(t *testing.T) {
	for _, c := range []Config{
		{Endpoint: "minio:9000"}, {Endpoint: "ftp://h"}, {Endpoint: "http://user:pass@h"}, {Endpoint: "http://h/?x"}, {Endpoint: "https://"},
		{Region: "eu central"}, {Region: "a.b"},
	} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestCredentialsNeverPrint(t *testing.T) {
	holder := struct{ C upload.Credentials }{cred}
	var text strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&text, verb+verb, cred, holder)
	}
	js, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	text.Write(js)
	slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "cred", cred, "holder", holder)
	slog.New(slog.NewTextHandler(&text, nil)).Info("x", "cred", cred, "holder", holder)
	for _, secret := range []string{cred.AccessKey, cred.SecretKey, cred.SessionToken, fmt.Sprintf("%x", cred.SecretKey)} {
		if strings.Contains(text.String(), secret) {
			t.Errorf("%q is in:\n%s", secret, text.String())
		}
	}
}

func newURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
