package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// signature is a parsed Authorization header of Signature Version 4.
type signature struct {
	accessKey, date, region string
	signedHeaders           []string
	mac                     []byte
}

// signedRequest is a request with a correct signature.
type signedRequest struct {
	credentials
	payload string    // SHA-256 of the body, in lower case
	at      time.Time // when it was signed, by the clock of its sender
}

// verify checks a request's signature. The caller compares the body, which is read later, with payload.
func (s *uploads) verify(r *http.Request, now time.Time) (signedRequest, error) {
	sig, err := parseAuthorization(r.Header.Get("Authorization"))
	if err != nil {
		return signedRequest{}, err
	}
	cred, ok := s.owners.keys.recognise(r.Header.Get("X-Amz-Security-Token"))
	if !ok {
		return signedRequest{}, invalid(403, "InvalidToken", "the session token was not issued here")
	}
	if sig.accessKey != cred.accessKey {
		return signedRequest{}, invalid(403, "InvalidAccessKeyId", "the access key does not belong to the session token")
	}
	if !s.owners.isKnown(cred.owner) {
		return signedRequest{}, invalid(403, "InvalidToken", "the API token for which the credentials were issued is not valid now")
	}
	if !now.Before(cred.expires) {
		return signedRequest{}, invalid(400, "ExpiredToken", "the credentials have expired")
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil || stamp[:8] != sig.date {
		return signedRequest{}, invalid(403, "AccessDenied", "x-amz-date is missing, malformed or of another day than the scope")
	}
	if skew := now.Sub(at); skew > maxSkew || skew < -maxSkew {
		return signedRequest{}, invalid(403, "RequestTimeTooSkewed", "the clocks differ by more than 15 minutes")
	}
	if sig.region != region {
		return signedRequest{}, invalid(400, "AuthorizationHeaderMalformed", "the region is "+region)
	}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if b, err := hex.DecodeString(payload); err != nil || len(b) != sha256.Size {
		return signedRequest{}, invalid(400, "InvalidRequest", "x-amz-content-sha256 must be the SHA-256 of the body")
	}
	if err := checkSigned(sig.signedHeaders); err != nil {
		return signedRequest{}, err
	}
	if !hmac.Equal(sig.mac, expectedMAC(r, sig, cred.secretKey, stamp, payload)) {
		return signedRequest{}, invalid(403, "SignatureDoesNotMatch", "the signature is not that of this request")
	}
	return signedRequest{cred, strings.ToLower(payload), at}, nil
}

func parseAuthorization(header string) (signature, error) {
	malformed := invalid(403, "AccessDenied", "the Authorization header is missing or not AWS4-HMAC-SHA256")
	rest, ok := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	if !ok {
		return signature{}, malformed
	}
	var s signature
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			scope := strings.Split(value, "/")
			if len(scope) != 5 || scope[3] != "s3" || scope[4] != "aws4_request" {
				return signature{}, malformed
			}
			s.accessKey, s.date, s.region = scope[0], scope[1], scope[2]
		case "SignedHeaders":
			s.signedHeaders = strings.Split(value, ";")
		case "Signature":
			mac, err := hex.DecodeString(value)
			if err != nil {
				return signature{}, malformed
			}
			s.mac = mac
		default:
			return signature{}, malformed
		}
	}
	if s.accessKey == "" || len(s.signedHeaders) == 0 || len(s.mac) != sha256.Size {
		return signature{}, malformed
	}
	return s, nil
}

// checkSigned checks that the necessary headers are signed, in alphabetical order.
func checkSigned(names []string) error {
	if !slices.IsSorted(names) {
		return invalid(403, "AccessDenied", "SignedHeaders are not in order")
	}
	for _, must := range []string{"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"} {
		if !slices.Contains(names, must) {
			return invalid(403, "AccessDenied", "the header "+must+" is not signed")
		}
	}
	return nil
}

// expectedMAC signs the request again, see section 10.4.
func expectedMAC(r *http.Request, s signature, secret, stamp, payload string) []byte {
	var c strings.Builder
	c.WriteString(r.Method + "\n" + canonicalPath(r.URL.Path) + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range s.signedHeaders {
		values := r.Header.Values(name)
		if name == "host" {
			values = []string{r.Host}
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		c.WriteString(name + ":" + strings.Join(trimmed, ",") + "\n")
	}
	c.WriteString("\n" + strings.Join(s.signedHeaders, ";") + "\n" + payload)

	digest := sha256.Sum256([]byte(c.String()))
	scope := s.date + "/" + s.region + "/s3/aws4_request"
	key := []byte("AWS4" + secret)
	for _, part := range []string{
		s.date, s.region, "s3", "aws4_request",
		"AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(digest[:]),
	} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	return key
}

// canonicalPath encodes the decoded path once: the client has signed this form, whichever it
// sent.
func canonicalPath(path string) string { return strings.ReplaceAll(awsEscape(path), "%2F", "/") }

func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, v := range values {
			pairs = append(pairs, awsEscape(name)+"="+awsEscape(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// awsEscape is url.QueryEscape with a blank as %20, as in AWS.
func awsEscape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}
