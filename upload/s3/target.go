package s3

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// fallbackRegion is the region of a bucket with an unknown region (section 10.2).
const fallbackRegion = "eu-central-1"

// regionOf returns the bucket's region, from a HEAD request the first time. A bucket that answers
// without its region is in fallbackRegion; a request without an answer is an error and is
// not cached. Several uploads wait for one request.
func (u *Uploader) regionOf(ctx context.Context, bucket string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if region := u.regions[bucket]; region != "" {
		return region, nil
	}
	region, err := u.headBucket(ctx, bucket)
	if err != nil {
		return "", err
	}
	u.regions[bucket] = cmp.Or(region, fallbackRegion)
	return u.regions[bucket], nil
}

// headBucket sends a HEAD request to the global endpoint; the answer has the region,
// whatever its status is.
func (u *Uploader) headBucket(ctx context.Context, bucket string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+bucket+".s3.amazonaws.com/", nil)
	if err != nil {
		return "", err
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return "", err
	}
	_ = resp.Body.Close()
	region := resp.Header.Get("x-amz-bucket-region")
	if region != "" && !validRegion(region) {
		return "", fmt.Errorf("the bucket %s has an invalid region", bucket)
	}
	return region, nil
}

// validRegion checks a region, which becomes part of a host name.
func validRegion(r string) bool {
	return r != "" && len(r) <= 64 && strings.Trim(r, "-"+digits+lower) == ""
}

// ParseURI splits s3://bucket/path/to/object into bucket and key. Any other form,
// an empty bucket and an empty key are errors (section 10.1).
func ParseURI(uri string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(uri, "s3://")
	if !ok {
		return "", "", fmt.Errorf("S3 URI %q: it must begin with s3://", uri)
	}
	bucket, key, _ = strings.Cut(rest, "/")
	switch {
	case !validBucket(bucket):
		return "", "", fmt.Errorf("S3 URI %q: no valid bucket name between s3:// and the next slash", uri)
	case key == "":
		return "", "", fmt.Errorf("S3 URI %q: no key after the bucket", uri)
	}
	return bucket, key, nil
}

// validBucket checks a bucket, which becomes part of a host name, as Ceph and MinIO do: 3 to 63
// lower-case letters, digits, dots and hyphens. It accepts older buckets with capitals or
// underscores, because no host name reaches them.
func validBucket(b string) bool {
	isName := b != "" && len(b) <= 255 && b[0] != '.' && b[0] != '-'
	return isName && strings.Trim(b, "-_."+digits+lower+strings.ToUpper(lower)) == ""
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
)

// escapePath percent-encodes every segment of a path once, for the canonical URI of S3:
// all bytes but A-Z a-z 0-9 - _ . ~ and the slashes between segments.
func escapePath(path string) string {
	return strings.NewReplacer("+", "%20", "%2F", "/").Replace(url.QueryEscape(path))
}

// target is where an object lives.
type target struct {
	base   *url.URL // scheme and host
	path   string   // with a leading slash, as it is signed: not encoded
	region string
}

func (t target) url() *url.URL {
	u := *t.base
	u.Path, u.RawPath = t.path, escapePath(t.path)
	return &u
}
