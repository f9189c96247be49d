//go:build s3

package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// client does what the tests need in addition to uploads: it makes the bucket, gets session
// credentials and reads objects back. Its signer shares no code with upload/s3.
type client struct{ base string }

// answer is a response of the server.
type answer struct {
	header http.Header
	body   []byte
}

// do sends a signed request. A status other than 200 is an error.
func (c *client) do(method, path, query, body, service string, cred upload.Credentials) (answer, error) {
	at := c.base + path
	if query != "" {
		at += "?" + query
	}
	req, err := http.NewRequest(method, at, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if service == "sts" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	// Otherwise the transport adds gzip and decompresses the answer.
	req.Header.Set("Accept-Encoding", "identity")
	sign(req, body, service, cred, time.Now().UTC())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, got)
	}
	return answer{resp.Header, got}, nil
}

func sign(req *http.Request, body, service string, cred upload.Credentials, now time.Time) {
	stamp, day := now.Format("20060102T150405Z"), now.Format("20060102")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	req.Header.Set("X-Amz-Date", stamp)
	req.Header.Set("X-Amz-Content-Sha256", sum)
	canonical := req.Method + "\n" + req.URL.EscapedPath() + "\n" + req.URL.RawQuery + "\n" +
		"host:" + req.URL.Host + "\nx-amz-content-sha256:" + sum + "\nx-amz-date:" + stamp + "\n\n" +
		"host;x-amz-content-sha256;x-amz-date\n" + sum
	scope := day + "/" + region + "/" + service + "/aws4_request"
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", stamp, scope, sha256.Sum256([]byte(canonical)))
	key := []byte("AWS4" + cred.SecretKey)
	for _, part := range []string{day, region, service, "aws4_request", text} {
		key = hash(key, part)
	}
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=%x",
		cred.AccessKey, scope, key))
}

func hash(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// session gets credentials that expire in one hour from the server's token service.
func (c *client) session(t *testing.T) upload.Credentials {
	t.Helper()
	form := url.Values{"Action": {"AssumeRole"}, "Version": {"2011-06-15"}, "DurationSeconds": {"3600"}}
	got, err := c.do(http.MethodPost, "/", "", form.Encode(), "sts", owner)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Credentials struct {
			AccessKeyId, SecretAccessKey, SessionToken string
			Expiration                                 time.Time
		} `xml:"AssumeRoleResult>Credentials"`
	}
	if err := xml.Unmarshal(got.body, &said); err != nil {
		t.Fatal(err)
	}
	s := said.Credentials
	if s.AccessKeyId == "" || s.AccessKeyId == owner.AccessKey || s.SecretAccessKey == "" || s.SessionToken == "" {
		t.Fatal("AssumeRole gave no session credentials")
	}
	return upload.Credentials{AccessKey: s.AccessKeyId, SecretKey: s.SecretAccessKey, SessionToken: s.SessionToken, Expiration: s.Expiration, Region: region}
}

// keys lists the objects of the bucket under the server's names.
func (c *client) keys(t *testing.T) []string {
	t.Helper()
	got, err := c.do(http.MethodGet, "/"+bucket, "list-type=2", "", "s3", owner)
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		IsTruncated bool
		Key         []string `xml:"Contents>Key"`
	}
	if err := xml.Unmarshal(got.body, &said); err != nil {
		t.Fatal(err)
	}
	if said.IsTruncated {
		t.Fatal("the list of objects is truncated")
	}
	return said.Key
}

// get reads an object.
func (c *client) get(t *testing.T, key string) answer {
	t.Helper()
	var path strings.Builder
	for i := range len(key) {
		switch b := key[i]; {
		case b == '/', b >= '0' && b <= '9', b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b == '-', b == '.', b == '_', b == '~':
			path.WriteByte(b)
		default:
			fmt.Fprintf(&path, "%%%02X", b)
		}
	}
	got, err := c.do(http.MethodGet, "/"+bucket+"/"+path.String(), "", "", "s3", owner)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
