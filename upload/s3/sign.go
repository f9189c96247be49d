package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/resource-tracker/rt/upload"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	dateTime  = "20060102T150405Z" // x-amz-date, UTC
	service   = "s3"
)

// request is the part of a PUT that Signature Version 4 covers (section 10.4).
type request struct {
	host        string // with a port if it is not the scheme's
	path        string // not encoded, with a leading slash
	region      string
	payloadHash string // SHA-256 of the body, lower-case hexadecimal
	time        time.Time
}

// authorization returns the value of the Authorization header.
func (r request) authorization(cred upload.Credentials) string {
	stamp := r.time.UTC().Format(dateTime)
	scope := stamp[:8] + "/" + r.region + "/" + service + "/aws4_request"

	signed := "host;x-amz-content-sha256;x-amz-date"
	headers := "host:" + r.host + "\nx-amz-content-sha256:" + r.payloadHash + "\nx-amz-date:" + stamp + "\n"
	if cred.SessionToken != "" {
		signed += ";x-amz-security-token"
		headers += "x-amz-security-token:" + cred.SessionToken + "\n"
	}
	canonical := strings.Join([]string{"PUT", escapePath(r.path), "", headers, signed, r.payloadHash}, "\n")
	digest := sha256.Sum256([]byte(canonical))
	toSign := strings.Join([]string{algorithm, stamp, scope, hex.EncodeToString(digest[:])}, "\n")

	key := []byte("AWS4" + cred.SecretKey)
	for _, part := range []string{stamp[:8], r.region, service, "aws4_request", toSign} {
		key = mac(key, part)
	}
	return algorithm + " Credential=" + cred.AccessKey + "/" + scope +
		", SignedHeaders=" + signed + ", Signature=" + hex.EncodeToString(key)
}

func mac(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}
