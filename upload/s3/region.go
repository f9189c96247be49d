package s3

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// fallbackRegion is the region of a bucket with an unknown region (section 10.2).
const fallbackRegion = "eu-central-1"

// regions caches the regions of buckets for the lifetime of an Uploader. Several uploads to
// one bucket wait for one request.
type regions struct {
	mu    sync.Mutex
	known map[string]string
	busy  map[string]chan struct{}
}

// of returns the bucket's region, from a HEAD request the first time. A bucket that answers
// without its region is in fallbackRegion; a request without an answer is an error and is
// not cached.
func (r *regions) of(ctx context.Context, bucket string, head func(context.Context) (string, error)) (string, error) {
	for {
		r.mu.Lock()
		if region, ok := r.known[bucket]; ok {
			r.mu.Unlock()
			return region, nil
		}
		wait, busy := r.busy[bucket]
		if !busy {
			r.busy[bucket] = make(chan struct{})
			r.mu.Unlock()
			return r.lookUp(ctx, bucket, head)
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

func (r *regions) lookUp(ctx context.Context, bucket string, head func(context.Context) (string, error)) (string, error) {
	region, err := head(ctx)
	if err == nil && region == "" {
		region = fallbackRegion
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.known[bucket] = region
	}
	close(r.busy[bucket])
	delete(r.busy, bucket)
	return region, err
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
	if r == "" || len(r) > 64 {
		return false
	}
	for _, c := range []byte(r) {
		isLetter, isDigit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if !isLetter && !isDigit && c != '-' {
			return false
		}
	}
	return true
}
