//go:build s3

package s3

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/resource-tracker/rt/e2e/minio"
	"github.com/resource-tracker/rt/upload"
)

const (
	region = minio.Region
	bucket = "metrics"
)

// owner has the root credentials of the server; uploads use session credentials.
var owner = upload.Credentials{AccessKey: minio.AccessKey, SecretKey: minio.SecretKey, Region: region}

// store is the server of all tests of the package.
var store *client

func TestMain(m *testing.M) {
	status, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		status = 1
	}
	os.Exit(status)
}

func withServer(tests func() int) (int, error) {
	server, err := minio.Start()
	if err != nil {
		return 0, err
	}
	store = &client{base: server.URL}
	status := 0
	_, err = store.do(http.MethodPut, "/"+bucket, "", "", "s3", owner)
	if err == nil {
		status = tests()
	} else {
		err = fmt.Errorf("make the bucket: %w", err)
	}
	return status, errors.Join(err, server.Close())
}
