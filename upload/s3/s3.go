// Package s3 puts objects into S3 and compatible stores with one signed request each
// (section 10 of the specification).
package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

// Config is the configuration of an Uploader.
type Config struct {
	HTTP *http.Client // see upload.NewHTTPClient
	// Endpoint is the base URL of a store other than AWS. With one, addresses are
	// path-style and no region is looked up. Empty for AWS.
	Endpoint string
	// Region of the buckets. If empty, the credentials name the region, or else the bucket does.
	Region string
}

// Uploader implements upload.Putter. It is safe for concurrent use.
type Uploader struct {
	http     *http.Client
	endpoint *url.URL // nil for AWS
	region   string

	mu      sync.Mutex
	regions map[string]string // of the buckets that have answered
}

// New checks the configuration and returns an Uploader.
func New(c Config) (*Uploader, error) {
	u := &Uploader{http: upload.WithoutRedirects(c.HTTP), region: c.Region, regions: map[string]string{}}
	if c.Region != "" && !validRegion(c.Region) {
		return nil, fmt.Errorf("S3 region %q: lower-case letters, digits and hyphens are allowed", c.Region)
	}
	if c.Endpoint == "" {
		return u, nil
	}
	e, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("S3 endpoint: %w", err)
	}
	if !upload.IsBaseURL(e) {
		return nil, fmt.Errorf("S3 endpoint %q: it must be http(s)://host[:port]", e.Redacted())
	}
	e.Path, e.RawPath = strings.TrimRight(e.Path, "/"), ""
	u.endpoint = e
	return u, nil
}

// Put stores the body, a gzip-compressed CSV or the record of a run, under an s3:// URI. Success is 200
// or 201 (section 10.5). Its errors are *upload.Error, without credentials.
func (u *Uploader) Put(ctx context.Context, uri string, cred upload.Credentials, body []byte) error {
	op := "PUT " + uri
	bucket, key, err := ParseURI(uri)
	if err != nil {
		return &upload.Error{Op: op, Kind: upload.Permanent, Err: err}
	}
	t, err := u.locate(ctx, bucket, key, cred.Region)
	if err != nil {
		return upload.NoAnswer(op+": look up the bucket's region", err)
	}
	req, err := newRequest(ctx, t, cred, body, time.Now())
	if err != nil {
		return &upload.Error{Op: op, Kind: upload.Permanent, Err: err}
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return upload.NoAnswer(op, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return nil // the status decides; the rest of the body has nothing more
	}
	if err != nil && len(text) == 0 {
		text = []byte("the answer broke off")
	}
	return refusal(op, resp, text, cred)
}

// locate returns the address: path-style below an endpoint, and for buckets with dots, for
// which no wildcard certificate matches the host name.
func (u *Uploader) locate(ctx context.Context, bucket, key, credRegion string) (target, error) {
	region := u.region
	if region == "" && validRegion(credRegion) {
		region = credRegion
	}
	if u.endpoint != nil {
		return target{base: u.endpoint, path: u.endpoint.Path + "/" + bucket + "/" + key, region: cmp.Or(region, fallbackRegion)}, nil
	}
	if region == "" {
		var err error
		region, err = u.regionOf(ctx, bucket)
		if err != nil {
			return target{}, err
		}
	}
	host := "s3." + region + ".amazonaws.com"
	if strings.Contains(bucket, ".") {
		return target{base: &url.URL{Scheme: "https", Host: host}, path: "/" + bucket + "/" + key, region: region}, nil
	}
	return target{base: &url.URL{Scheme: "https", Host: bucket + "." + host}, path: "/" + key, region: region}, nil
}

func newRequest(ctx context.Context, t target, cred upload.Credentials, body []byte, now time.Time) (*http.Request, error) {
	if cred.AccessKey == "" || cred.SecretKey == "" {
		return nil, errors.New("no credentials were given for the upload")
	}
	at := t.url()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	signed := request{host: at.Host, path: t.path, region: t.region, payloadHash: hex.EncodeToString(sum[:]), time: now}
	h := req.Header
	h.Set("User-Agent", upload.UserAgent+"/"+rt.Version)
	if strings.HasSuffix(t.path, "/"+upload.RecordName) {
		h.Set("Content-Type", "application/octet-stream")
	} else {
		h.Set("Content-Type", "text/csv")
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("X-Amz-Content-Sha256", signed.payloadHash)
	h.Set("X-Amz-Date", now.UTC().Format(dateTime))
	if cred.SessionToken != "" {
		h.Set("X-Amz-Security-Token", cred.SessionToken)
	}
	h.Set("Authorization", signed.authorization(cred))
	return req, nil
}

// refusal returns the error of a refused upload. It quotes only code and message of S3's
// XML: other elements repeat the signed request, with the session token.
func refusal(op string, resp *http.Response, body []byte, cred upload.Credentials) error {
	text := string(body)
	code := element(text, "Code")
	if code != "" {
		text = code + ": " + element(text, "Message")
	}
	e := upload.BadStatus(op, resp, upload.Excerpt([]byte(text), cred.AccessKey, cred.SecretKey, cred.SessionToken))
	e.Code = code
	switch code {
	case "ExpiredToken", "InvalidToken", "InvalidAccessKeyId", "TokenRefreshRequired", "RequestTimeTooSkewed":
		e.Kind = upload.Unauthorised
	case "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch": // the last ones: damage on the way
		e.Kind = upload.Temporary
	default:
		if resp.StatusCode == http.StatusForbidden {
			e.Kind = upload.Unauthorised
		}
	}
	return e
}

// element returns the text of the first XML element of that name. An error message needs no
// more, and an XML parser would add 0.1 MiB to resource-tracker.
func element(body, name string) string {
	_, rest, ok := strings.Cut(body, "<"+name+">")
	if !ok {
		return ""
	}
	text, _, ok := strings.Cut(rest, "</"+name+">")
	if !ok {
		return ""
	}
	return entities.Replace(text)
}

var entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&#34;", `"`, "&#39;", "'", "&amp;", "&")
