package upload

import (
	"context"
	"time"

	"github.com/resource-tracker/rt"
)

// The dialects of the Sentinel API: as specified, and as the running service is.
const (
	DialectSpec = "spec"
	DialectLive = "live"
)

// Client is the receiver's API. Its errors are *Error.
type Client interface {
	// Endpoint is the base URL, by which a registration names its receiver.
	Endpoint() string
	Register(ctx context.Context, run rt.Run, host rt.Host) (Registered, error)
	Refresh(ctx context.Context, remoteID string) (Credentials, error)
	Finish(ctx context.Context, f Finish) error
}

// Registered is the receiver's answer to a registration.
type Registered struct {
	Dialect         string // the one that was accepted
	RemoteID        string
	UploadURIPrefix string // s3://bucket/some/prefix, without a slash at its end
	Credentials     Credentials
}

// The values of Finish.Status.
const (
	StatusFinished = "finished"
	StatusFailed   = "failed"
)

// Finish closes a run at the receiver (section 9.2.3).
type Finish struct {
	Dialect    string
	RemoteID   string
	Status     string        // StatusFinished or StatusFailed
	ExitCode   rt.Opt[int64] // absent when it is not known, or a signal ended the run
	FinishedAt time.Time     // when the run ended
	URIs       []string      // of its objects; none: the rows are in CSV
	CSV        []byte        // plain text, with its header
}

// Putter stores objects. Its errors are *Error.
type Putter interface {
	// Put stores a gzip-compressed CSV under an s3:// URI.
	Put(ctx context.Context, uri string, cred Credentials, body []byte) error
}
