package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	icebergio "github.com/apache/iceberg-go/io"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// Without AWS_REGION, the files of a lake in S3 are signed for the region that the store names, as serve.objects is.
func TestRegionOfTheLake(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isLocation := r.URL.Path == "/bucket/" && r.URL.Query().Has("location")
		if !isLocation {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `<?xml version="1.0"?><LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-west-3</LocationConstraint>`)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	for set, want := range map[string]string{"": "eu-west-3", "us-west-1": "us-west-1"} {
		t.Setenv("AWS_REGION", set)
		files, err := access(t.Context(), config.Serve{Lake: "s3://bucket/lake", Endpoint: server.URL})
		if err != nil || files[icebergio.S3Region] != want {
			t.Errorf("with AWS_REGION=%q the region is %q, %v; want %q", set, files[icebergio.S3Region], err, want)
		}
	}
}
