//go:build s3

package objects

import (
	"errors"
	"slices"
	"strings"
	"testing"

	client "github.com/minio/minio-go/v7"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/site"
)

// TestS3 needs RT_MINIO, see contrib/test/s3.
func TestS3(t *testing.T) {
	server, err := minio.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func(location string) *S3 {
		t.Helper()
		s, err := NewS3(S3Config{Location: location, Endpoint: server.URL, AccessKey: minio.AccessKey, SecretKey: minio.SecretKey})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open("s3://metrics/site/objects")
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no bucket metrics") {
		t.Errorf("%v", err)
	}
	if _, err := s.Get(t.Context(), "x"); err == nil || errors.Is(err, site.ErrNotFound) {
		t.Errorf("without a bucket: %v", err)
	}
	if err := s.client.MakeBucket(t.Context(), "metrics", client.MakeBucketOptions{Region: minio.Region}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	// Objects of other programs and of another prefix are not listed.
	other := open("s3://metrics/site/objects-of-another")
	put(t, other, "x", []byte("x"))
	if _, err := s.client.Client.PutObject(t.Context(), "metrics", "site/objects/a b", strings.NewReader("x"), 1, client.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("prefix", func(t *testing.T) { testStore(t, s) })
	holds(t, other, "x", []byte("x"))
	if err := other.Delete(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if err := s.client.MakeBucket(t.Context(), "whole", client.MakeBucketOptions{Region: minio.Region}); err != nil {
		t.Fatal(err)
	}
	whole := open("s3://whole")
	put(t, whole, runA+"/x", []byte("x"))
	if got := list(t, whole, runA); !slices.Equal(got, []string{runA + "/x 1"}) {
		t.Errorf("listed: %q", got)
	}

	wrong := S3Config{Location: "s3://metrics", Endpoint: server.URL, AccessKey: minio.AccessKey, SecretKey: "another secret"}
	w, err := NewS3(wrong)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Check(t.Context()); err == nil || strings.Contains(err.Error(), wrong.SecretKey) {
		t.Errorf("with a wrong key: %v", err)
	}
	if err := w.Put(t.Context(), "x", 1, strings.NewReader("x")); err == nil {
		t.Error("with a wrong key an object was stored")
	}
	// No upload in parts is left.
	for u := range s.client.ListIncompleteUploads(t.Context(), "metrics", "", true) {
		t.Errorf("incomplete upload of %s, %v", u.Key, u.Err)
	}
}
