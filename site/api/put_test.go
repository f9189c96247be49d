package api

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
)

// signedPut describes a signed PUT; the zero values of the later fields mean "right".
type signedPut struct {
	g         grant
	path      string // as it is signed: decoded
	sent      string // as it is sent; escaped path
	body      []byte
	at        time.Time
	tamper    func(*http.Request)
	region    string
	signedNot string // a header that is left out of the signature
}

// put signs the request in its own way, apart from the code under test.
func put(t testing.TB, s http.Handler, u signedPut) (int, string) {
	t.Helper()
	if u.at.IsZero() {
		u.at = time.Now()
	}
	if u.sent == "" {
		u.sent = u.path
	}
	if u.region == "" {
		u.region = "eu-central-1"
	}
	r := httptest.NewRequest("PUT", "http://store.example:8443"+u.sent, bytes.NewReader(u.body))
	hash := sha256.Sum256(u.body)
	stamp := u.at.UTC().Format("20060102T150405Z")
	headers := [][2]string{
		{"host", "store.example:8443"}, {"x-amz-content-sha256", hex.EncodeToString(hash[:])},
		{"x-amz-date", stamp}, {"x-amz-security-token", u.g.Credentials.SessionToken},
	}
	var lines, names []string
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
		if h[0] != u.signedNot {
			names, lines = append(names, h[0]), append(lines, h[0]+":"+h[1]+"\n")
		}
	}
	canonical := "PUT\n" + strings.ReplaceAll(u.path, " ", "%20") + "\n\n" + strings.Join(lines, "") + "\n" + strings.Join(names, ";") + "\n" + hex.EncodeToString(hash[:])
	digest := sha256.Sum256([]byte(canonical))
	scope := stamp[:8] + "/" + u.region + "/s3/aws4_request"
	key := []byte("AWS4" + u.g.Credentials.SecretKey)
	for _, m := range []string{stamp[:8], u.region, "s3", "aws4_request", "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hex.EncodeToString(digest[:])} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(m))
		key = h.Sum(nil)
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x",
		u.g.Credentials.AccessKey, scope, strings.Join(names, ";"), key))
	if u.tamper != nil {
		u.tamper(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// putCase is a PUT, and what it is answered.
type putCase struct {
	name   string
	u      signedPut
	status int
	code   string
}

// signatures are PUTs to a run, and to another one, with what may be wrong with a signature.
func signatures(g, other grant, path string) []putCase {
	mixed, secret, forged := g, g, g
	mixed.Credentials.SessionToken = other.Credentials.SessionToken
	secret.Credentials.SecretKey += "x"
	forged.Credentials.SessionToken += "A"
	return []putCase{
		{"right", signedPut{}, 200, ""},
		{"again", signedPut{}, 200, ""},
		{"a blank in the key", signedPut{path: "/rt/runs/" + g.RunID + "/a b", sent: "/rt/runs/" + g.RunID + "/a%20b"}, 200, ""},
		{"another run's prefix", signedPut{path: "/rt/runs/" + other.RunID + "/000001.csv.gz"}, 403, "AccessDenied"},
		{"a path that climbs", signedPut{path: "/rt/runs/" + g.RunID + "/.."}, 400, "InvalidRequest"},
		{"a path that climbs to another run", signedPut{path: "/rt/runs/" + g.RunID + "/../" + other.RunID + "/000001.csv.gz"}, 400, "InvalidRequest"},
		{"a path that climbs and returns", signedPut{path: "/rt/runs/" + g.RunID + "/a/../b"}, 400, "InvalidRequest"},
		{"a path that climbs with escapes", signedPut{path: "/rt/runs/" + g.RunID + "/../x", sent: "/rt/runs/" + g.RunID + "/%2e%2E%2fx"}, 400, "InvalidRequest"},
		{"a path that stays", signedPut{path: "/rt/runs/" + g.RunID + "/./x"}, 400, "InvalidRequest"},
		{"a path that ends with a dot", signedPut{path: "/rt/runs/" + g.RunID + "/x/."}, 400, "InvalidRequest"},
		{"three dots", signedPut{path: "/rt/runs/" + g.RunID + "/..."}, 403, "AccessDenied"},
		{"no key", signedPut{path: "/rt/runs/" + g.RunID + "/"}, 403, "AccessDenied"},
		{"another path than signed", signedPut{sent: path + "x"}, 403, "SignatureDoesNotMatch"},
		{"a query", signedPut{sent: path + "?acl"}, 403, "SignatureDoesNotMatch"},
		{"another secret", signedPut{g: secret}, 403, "SignatureDoesNotMatch"},
		{"another run's token", signedPut{g: mixed}, 403, "InvalidAccessKeyId"},
		{"a forged token", signedPut{g: forged}, 403, "InvalidToken"},
		{"another host", signedPut{tamper: func(r *http.Request) { r.Host = "evil.example" }}, 403, "SignatureDoesNotMatch"},
		{"16 minutes ago", signedPut{at: time.Now().Add(-16 * time.Minute)}, 403, "RequestTimeTooSkewed"},
		{"16 minutes ahead", signedPut{at: time.Now().Add(16 * time.Minute)}, 403, "RequestTimeTooSkewed"},
		{"14 minutes ago", signedPut{at: time.Now().Add(-14 * time.Minute)}, 200, ""},
		{"another region", signedPut{region: "us-east-1"}, 400, "AuthorizationHeaderMalformed"},
		{"the token unsigned", signedPut{signedNot: "x-amz-security-token"}, 403, "AccessDenied"},
		{"the host unsigned", signedPut{signedNot: "host"}, 403, "AccessDenied"},
		{"no signature", signedPut{tamper: func(r *http.Request) { r.Header.Del("Authorization") }}, 403, "AccessDenied"},
		{"a bearer token", signedPut{tamper: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }}, 403, "AccessDenied"},
	}
}

// wrongBodies are PUTs with an invalid body.
func wrongBodies(t *testing.T, body []byte) []putCase {
	return []putCase{
		{"another body than signed", signedPut{tamper: func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(packed(t, "a\n"))), int64(len(packed(t, "a\n")))
		}}, 400, "XAmzContentSHA256Mismatch"},
		{"an unsigned body", signedPut{tamper: func(r *http.Request) { r.Header.Set("x-amz-content-sha256", "UNSIGNED-PAYLOAD") }}, 400, "InvalidRequest"},
		{"no length", signedPut{tamper: func(r *http.Request) { r.ContentLength = -1 }}, 411, "MissingContentLength"},
		{"too long", signedPut{body: bytes.Repeat([]byte("x"), 5000)}, 400, "EntityTooLarge"},
		{"longer than it says", signedPut{body: bytes.Repeat([]byte("x"), 5000), tamper: func(r *http.Request) { r.ContentLength = 10 }}, 400, "EntityTooLarge"},
		{"not gzip", signedPut{body: []byte("a,b\n")}, 400, "InvalidRequest"},
		{"gzip cut short", signedPut{body: body[:len(body)-6]}, 400, "InvalidRequest"},
		{"no lines", signedPut{body: packed(t, "a,b")}, 400, "InvalidRequest"},
		{"GET", signedPut{tamper: func(r *http.Request) { r.Method = "GET" }}, 405, "MethodNotAllowed"},
	}
}

func TestPutVerifiesEverySignature(t *testing.T) {
	temp := t.TempDir()
	s := newServer(t, Config{MaxObject: 4096, Temp: temp})
	g, other := register(t, s), register(t, s)
	path := "/rt/runs/" + g.RunID + "/000001.csv.gz"
	body := packed(t, "a,b\n1,2\n3,4\n")
	for _, tc := range append(signatures(g, other, path), wrongBodies(t, body)...) {
		if tc.u.g.RunID == "" {
			tc.u.g = g
		}
		if tc.u.path == "" {
			tc.u.path = path
		}
		if tc.u.body == nil {
			tc.u.body = body
		}
		status, answer := put(t, s, tc.u)
		if status != tc.status || !strings.Contains(answer, tc.code) || strings.Contains(answer, g.Credentials.SecretKey) {
			t.Errorf("%s: %d %s", tc.name, status, answer)
		}
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) != 0 {
		t.Errorf("temporary files were left: %v, %v", left, err)
	}
	_, body2 := api(t, s, "GET", "/runs/"+g.RunID, "")
	var v view
	if err := json.Unmarshal([]byte(body2), &v); err != nil || len(v.Objects) != 2 || v.Rows != rt.Some[int64](4) || v.Status != "running" {
		t.Errorf("%s: %v", body2, err)
	}
}

func TestCredentialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		g := register(t, s)
		u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n")}
		if until, err := time.Parse(time.RFC3339, g.Credentials.Expiration); err != nil || time.Until(until) != time.Hour {
			t.Errorf("until %v, %v", until, err)
		}
		time.Sleep(time.Hour - time.Second)
		if status, answer := put(t, s, u); status != 200 {
			t.Errorf("a second before: %d %s", status, answer)
		}
		time.Sleep(time.Second)
		if status, answer := put(t, s, u); status != 400 || !strings.Contains(answer, "ExpiredToken") {
			t.Errorf("at the end: %d %s", status, answer)
		}
		_, body := api(t, s, "POST", "/runs/"+g.RunID+"/refresh-credentials", "{}")
		if err := json.Unmarshal([]byte(body), &u.g); err != nil {
			t.Fatal(err)
		}
		if status, answer := put(t, s, u); status != 200 {
			t.Errorf("refreshed: %d %s", status, answer)
		}
	})
}

func FuzzParseAuthorization(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=A/20260101/r/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0a", 32))
	f.Add("AWS4-HMAC-SHA256 ")
	f.Add("Bearer x")
	f.Fuzz(func(t *testing.T, header string) {
		s, err := parseAuthorization(header)
		if err == nil && (s.accessKey == "" || len(s.mac) != 32 || len(s.signedHeaders) == 0) {
			t.Errorf("%q gave %+v", header, s)
		}
	})
}

func FuzzRecognise(f *testing.F) {
	k := keyring{master: bytes.Repeat([]byte{7}, 32)}
	good := k.issue("20260101t000000-aaaaaaaaaaaaaaaaaaaaaaaaaa", "o", time.Unix(1e9, 0)).sessionToken
	f.Add(good)
	f.Add("a.b")
	f.Add(good[1:])
	f.Fuzz(func(t *testing.T, token string) {
		if c, ok := k.recognise(token); ok && (c.runID != "20260101t000000-aaaaaaaaaaaaaaaaaaaaaaaaaa" || c.expires.Unix() != 1e9) {
			t.Errorf("%q was taken as %+v", token, c)
		}
	})
}
