// Package drain sends runs for resource-tracker and rt-spool. It has the clients of a receiver and the
// stream of a recorded run. It also has the drain of a spool directory, which reads sacct, and the state of the node.
package drain

import (
	"cmp"
	"fmt"
	"net/url"
	"os"

	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// Receiver is where runs are sent, and with which token.
type Receiver struct {
	Endpoint   string // base URL of the API; empty: the public service's
	Token      string
	Dialect    string // "spec", "live" or "auto", also when empty
	S3Endpoint string // base URL of an S3-compatible store; empty: Amazon's
	S3Region   string // empty: the store reports it
	CAFile     string // PEM certificates trusted in addition to the system's; may be empty
}

// S3Endpoint returns the store that the variables of the AWS tools name; empty for none.
func S3Endpoint(getenv func(string) string) string {
	return cmp.Or(getenv("AWS_ENDPOINT_URL_S3"), getenv("AWS_ENDPOINT_URL"))
}

// Connect returns the clients. They connect later.
func (r Receiver) Connect() (*sentinel.Client, *s3.Uploader, error) {
	var ca []byte
	if r.CAFile != "" {
		var err error
		ca, err = os.ReadFile(r.CAFile)
		if err != nil {
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

// ClearText returns what a delivery sends to other machines without encryption.
func (r Receiver) ClearText() (unprotected []string) {
	for _, to := range []struct{ what, endpoint string }{{"the API's token crosses", r.Endpoint}, {"uploads cross", r.S3Endpoint}} {
		u, err := url.Parse(to.endpoint)
		if err == nil && hostport.CrossesNetwork(to.endpoint) {
			unprotected = append(unprotected, fmt.Sprintf("%s the network to %s in clear text", to.what, u.Host))
		}
	}
	return unprotected
}
