package s3

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// fallbackRegion is the region of a bucket with an unknown region (section 10.2).
const fallbackRegion = "eu-central-1"

// regions caches the regions of buckets for the lifetime of an Uploader.
type regions struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket is a bucket and its region, empty before an answer. Several uploads to one bucket wait
// for one request: the one that has put an element into turn.
type bucket struct {
	turn   chan struct{}
	region string
}

// of returns the bucket's region, from a HEAD request the first time. A bucket that answers
// without its region is in fallbackRegion; a request without an answer is an error and is
// not cached.
func (r *regions) of(ctx context.Context, name string, head func(context.Context) (string, error)) (string, error) {
	r.mu.Lock()
	b := r.buckets[name]
	if b == nil {
		b = &bucket{turn: make(chan struct{}, 1)}
		r.buckets[name] = b
	}
	r.mu.Unlock()
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if b.region != "" {
		return b.region, nil
	}
	region, err := head(ctx)
	if err == nil {
		b.region = cmp.Or(region, fallbackRegion)
	}
	return b.region, err
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
