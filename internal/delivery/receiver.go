// Package delivery is what resource-tracker and rt-spool send runs with: the
// clients of a receiver, and the rows of both of its dialects.
package delivery

import (
	"fmt"
	"os"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// The variables of the environment that name a receiver.
const (
	EnvToken    = "SENTINEL_API_TOKEN"
	EnvEndpoint = "SENTINEL_API_URL"
)

// Receiver says where runs are sent and who sends them.
type Receiver struct {
	Endpoint   string // base URL of the API; empty: the public service's
	Token      string
	Dialect    string // "spec", "live" or "auto", also when empty
	S3Endpoint string // base URL of an S3-compatible store; empty: Amazon's
	S3Region   string // empty: asked of the store
	CAFile     string // PEM certificates trusted beside the system's; may be empty
}

// S3Endpoint returns the store that the variables of S3's own tools name; empty
// where they name none.
func S3Endpoint() string {
	if url := os.Getenv("AWS_ENDPOINT_URL_S3"); url != "" {
		return url
	}
	return os.Getenv("AWS_ENDPOINT_URL")
}

// Connect makes the clients. No connection is made yet.
func (r Receiver) Connect() (*sentinel.Client, *s3.Uploader, error) {
	var ca []byte
	if r.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(r.CAFile); err != nil {
			return nil, nil, fmt.Errorf("sentinel.ca_file: %w", err)
		}
	}
	httpClient, err := upload.NewHTTPClient(ca)
	if err != nil {
		return nil, nil, fmt.Errorf("sentinel.ca_file %s: %w", r.CAFile, err)
	}
	client, err := sentinel.New(sentinel.Config{HTTP: httpClient, Endpoint: r.Endpoint, Token: r.Token, Dialect: r.Dialect})
	if err != nil {
		return nil, nil, err
	}
	store, err := s3.New(s3.Config{HTTP: httpClient, Endpoint: r.S3Endpoint, Region: r.S3Region})
	if err != nil {
		return nil, nil, err
	}
	return client, store, nil
}
