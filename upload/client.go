package upload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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
	Record          bool   // the receiver takes the complete record of the run
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
	// Of a receiver that takes records: the run's figures as a JSON object, and the SHA-256 of
	// the stored record in lower-case hexadecimal. Both are empty otherwise.
	Summary      []byte
	RecordSHA256 string
}

// Putter stores objects. Its errors are *Error.
type Putter interface {
	// Put stores a gzip-compressed CSV under an s3:// URI, or a record if its name is RecordName.
	Put(ctx context.Context, uri string, cred Credentials, body []byte) error
}

// Credentials are short-lived keys to the part of an object store that belongs to one run.
// They are never stored: a resumed delivery requests new ones. Every way of printing them
// omits the secrets.
type Credentials struct {
	AccessKey    string
	SecretKey    string
	SessionToken string    // empty if the store needs none
	Expiration   time.Time // zero when not known
	Region       string    // the bucket's region; empty when the receiver does not say
}

// refreshBefore is how long before their expiration credentials are replaced (section 9.2.2).
const refreshBefore = 5 * time.Minute

// stale reports whether the credentials are missing or about to expire.
func (c Credentials) stale(now time.Time) bool {
	if c.AccessKey == "" {
		return true
	}
	return !c.Expiration.IsZero() && c.Expiration.Sub(now) <= refreshBefore
}

// String returns the expiration, and nothing else.
func (c Credentials) String() string {
	if c.Expiration.IsZero() {
		return "credentials [redacted]"
	}
	return "credentials [redacted] until " + c.Expiration.UTC().Format(time.RFC3339)
}

// Format writes String for every verb: %d or %x of a struct would print its fields.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is String.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON writes String.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }
