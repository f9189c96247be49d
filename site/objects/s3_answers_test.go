package objects

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt/site"
)

func TestLocation(t *testing.T) {
	for _, test := range []struct{ location, bucket, prefix string }{
		{"s3://metrics", "metrics", ""}, {"s3://metrics/", "metrics", ""}, {"s3://metrics/site", "metrics", "site/"},
		{"s3://metrics/site/a/", "metrics", "site/a/"},
	} {
		bucket, prefix, err := splitLocation(test.location)
		if err != nil || bucket != test.bucket || prefix != test.prefix {
			t.Errorf("%s: %q, %q, %v", test.location, bucket, prefix, err)
		}
	}
	for _, location := range []string{"", "s3://", "s3:///prefix", "metrics/site", "http://metrics", "s3://metrics//site", "s3://metrics/../site", "s3://metrics/a b"} {
		if _, err := NewS3(S3Config{Location: location}); err == nil {
			t.Errorf("%q was accepted", location)
		}
	}
	for _, endpoint := range []string{"store:9000", "//store", "ftp://store", "https://", "https://store/path", "https://key:secret@store", "https://store?x=y", "http://[", ":", "https://key:secret@[", "https://key:secret%zz@store"} {
		if _, err := NewS3(S3Config{Location: "s3://metrics", Endpoint: endpoint}); err == nil {
			t.Errorf("%q was accepted", endpoint)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// answering is a store that gives the same answer to all requests, without a network: a test of retries needs no time.
type answering struct {
	status   int
	body     string
	requests int
}

// RoundTrip implements http.RoundTripper.
func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests++
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	w := httptest.NewRecorder()
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// newAnswering returns the access to such a store.
func newAnswering(t *testing.T, status int, body string) (*S3, *answering) {
	t.Helper()
	a := &answering{status: status, body: body}
	s, err := NewS3(S3Config{Location: "s3://metrics/site", Endpoint: "http://store", Region: "r", AccessKey: "the key", SecretKey: "the secret", Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

func TestAnswersOfTheStore(t *testing.T) {
	code := func(s string) string {
		return "<Error><Code>" + s + "</Code><Message>it is so</Message></Error>"
	}
	for _, test := range []struct {
		status int
		body   string
		want   error // nil: another error
		reads  int   // how often a read was tried
	}{
		{507, code("XMinioStorageFull"), site.ErrFull, 1},
		{507, "", site.ErrFull, 1},
		{400, code("XMinioAdminBucketQuotaExceeded"), site.ErrFull, 1},
		{403, code("QuotaExceeded"), site.ErrFull, 1},
		{404, code("NoSuchBucket"), nil, 1},
		{403, code("AccessDenied"), nil, 1},
		{503, code("SlowDown"), site.ErrAway, s3Tries},
		{502, "<html>bad gateway</html>", site.ErrAway, s3Tries},
		{301, "<html>moved</html>", nil, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, store := newAnswering(t, test.status, test.body)
			err := s.Put(t.Context(), runA+"/x", 4, strings.NewReader("body"))
			if err == nil || errors.Is(err, site.ErrNotFound) {
				t.Fatalf("%v", err)
			}
			for _, kind := range []error{site.ErrFull, site.ErrAway} {
				if errors.Is(err, kind) != (test.want == kind) {
					t.Errorf("%v, want %v", err, test.want)
				}
			}
			if store.requests != 1 {
				t.Errorf("status %d: the body was sent %d times", test.status, store.requests)
			}
			store.requests = 0
			if _, err := s.Get(t.Context(), runA+"/x"); err == nil || errors.Is(err, site.ErrNotFound) {
				t.Errorf("read: %v", err)
			}
			if store.requests != test.reads {
				t.Errorf("status %d: %d requests, want %d", test.status, store.requests, test.reads)
			}
			text := err.Error()
			if !strings.Contains(text, "s3://metrics/site/"+runA+"/x") || strings.Contains(text, "the secret") {
				t.Errorf("%v", err)
			}
		})
	}
	s, _ := newAnswering(t, 404, code("NoSuchKey"))
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("%v, want %v", err, site.ErrNotFound)
	}
	if err := s.Delete(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	for _, status := range []int{404, 409, 412} {
		s, _ = newAnswering(t, status, code(map[int]string{404: "NoSuchKey", 409: "OperationAborted", 412: "PreconditionFailed"}[status]))
		if err := s.Put(t.Context(), "x", 4, strings.NewReader("body")); err == nil {
			t.Errorf("Put, status %d: %v", status, err)
		}
	}
	s, _ = newAnswering(t, 409, code("OperationAborted"))
	if _, err := s.Get(t.Context(), "x"); err == nil {
		t.Errorf("Get: %v", err)
	}
	s, _ = newAnswering(t, 404, "")
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no bucket metrics") {
		t.Errorf("%v", err)
	}
}

// A store that does not answer can answer later. That a request was given up says nothing about the store.
func TestStoreAway(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	s, err := NewS3(S3Config{Location: "s3://metrics", Endpoint: server.URL, Region: "r", AccessKey: "key", SecretKey: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if err := s.Put(t.Context(), runA+"/x", 4, strings.NewReader("body")); !errors.Is(err, site.ErrAway) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, runA+"/x", 4, strings.NewReader("body")); err == nil || errors.Is(err, site.ErrAway) {
		t.Errorf("%v", err)
	}
}
