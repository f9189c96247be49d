package upload

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"
)

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

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// Format writes String for every verb: %d or %x of a struct would print its fields.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is String.
func (c Credentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON writes String.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }
