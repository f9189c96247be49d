//go:build s3

package s3

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
)

// through changes a request after it was signed.
type through func(*http.Request)

func (f through) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return http.DefaultTransport.RoundTrip(r)
}

func uploader(t *testing.T, change through) *s3.Uploader {
	t.Helper()
	client, err := upload.NewHTTPClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		client.Transport = change
	}
	u, err := s3.New(s3.Config{HTTP: client, Endpoint: store.base})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func csvGz(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// oneKiB is a key of 1024 bytes, the maximum of S3, in segments that the server's file
// system accepts.
func oneKiB() string {
	const name = "000001.csv.gz"
	segments := strings.Repeat(strings.Repeat("a+b =%", 40)+"/", 4)
	return segments + strings.Repeat("k", 1024-len(segments)-len(name)) + name
}

func TestKeys(t *testing.T) {
	cred := store.session(t)
	u := uploader(t, nil)
	for _, tc := range []struct{ name, key string }{
		{"plain", "runs/r1/000001.csv.gz"},
		{"blank", "a blank/two  blanks/ .csv.gz"},
		{"plus", "a+b/+.csv.gz"},
		{"equals", "job=7/step=0/x=y.csv.gz"},
		{"percent", "100%/a%20b/%2F%.csv.gz"},
		{"non-ASCII", "grün/Å/日本/😀.csv.gz"},
		{"the rest of ASCII", "!\"#$&'()*,:;<>?@[]^`{|}~_-.csv.gz"},
		{"1 KiB", oneKiB()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := "timestamp\n" + tc.key + "\n"
			body := csvGz(t, text)
			if err := u.Put(t.Context(), "s3://"+bucket+"/"+tc.key, cred, body); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(store.keys(t), tc.key) {
				t.Errorf("no object has that name; the objects are %q", store.keys(t))
			}
			got := store.get(t, tc.key)
			if !bytes.Equal(got.body, body) {
				t.Errorf("read back %d bytes, want the %d that were sent", len(got.body), len(body))
			}
			if e, c := got.header.Get("Content-Encoding"), got.header.Get("Content-Type"); e != "gzip" || c != "text/csv" {
				t.Errorf("stored as %q, %q", e, c)
			}
		})
	}
}

// Sending the same object again is no error: after a lost answer the drain sends it again.
func TestPutTwice(t *testing.T) {
	cred, u, key := store.session(t), uploader(t, nil), "twice.csv.gz"
	for _, text := range []string{"first", "second"} {
		body := csvGz(t, text)
		if err := u.Put(t.Context(), "s3://"+bucket+"/"+key, cred, body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(store.get(t, key).body, body) {
			t.Errorf("the object is not the %s one", text)
		}
	}
}

// flip changes one character of a header.
func flip(r *http.Request, name string, at int) {
	v := []byte(r.Header.Get(name))
	if at < 0 {
		at += len(v)
	}
	v[at] ^= 1
	r.Header.Set(name, string(v))
}

func TestOneByteChangedIsRefused(t *testing.T) {
	cred := store.session(t)
	body := csvGz(t, "timestamp\n1\n")
	other := bytes.Clone(body)
	other[len(other)/2] ^= 1
	for _, tc := range []struct {
		name, code string
		change     through
	}{
		{"body", "XAmzContentSHA256Mismatch", func(r *http.Request) { r.Body = io.NopCloser(bytes.NewReader(other)) }},
		{"key", "SignatureDoesNotMatch", func(r *http.Request) { r.URL.Path, r.URL.RawPath = r.URL.Path[:len(r.URL.Path)-1]+"X", "" }},
		{"date", "SignatureDoesNotMatch", func(r *http.Request) { flip(r, "X-Amz-Date", -2) }},
		{"token", "InvalidTokenId", func(r *http.Request) { flip(r, "X-Amz-Security-Token", len(cred.SessionToken)/2) }},
		{"hash", "", func(r *http.Request) { flip(r, "X-Amz-Content-Sha256", 7) }},
		{"access key", "InvalidAccessKeyId", func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), cred.AccessKey, cred.AccessKey[:len(cred.AccessKey)-1]+"!", 1))
		}},
		{"signature", "SignatureDoesNotMatch", func(r *http.Request) {
			h := r.Header.Get("Authorization")
			last := byte('0')
			if h[len(h)-1] == last {
				last = '1'
			}
			r.Header.Set("Authorization", h[:len(h)-1]+string(last))
		}},
		{"no token", "", func(r *http.Request) { r.Header.Del("X-Amz-Security-Token") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := store.keys(t)
			key := "changed/" + tc.name + ".csv.gz"
			err := uploader(t, tc.change).Put(t.Context(), "s3://"+bucket+"/"+key, cred, body)
			var e *upload.Error
			if !errors.As(err, &e) || e.Status < 400 || e.Status >= 500 || !strings.Contains(err.Error(), tc.code) {
				t.Errorf("the answer to a changed %s: %v; want a refusal with %s", tc.name, err, tc.code)
			}
			if after := store.keys(t); !slices.Equal(before, after) {
				t.Errorf("an object was stored: %q", after)
			}
			if err != nil {
				for _, secret := range []string{cred.AccessKey, cred.SecretKey, cred.SessionToken} {
					if strings.Contains(err.Error(), secret) {
						t.Error("the error holds a secret")
					}
				}
			}
		})
	}
}

// The kind of a refusal decides what the drain does next.
func TestRefusalsAreReported(t *testing.T) {
	good := store.session(t)
	for _, tc := range []struct {
		name, uri string
		cred      func(upload.Credentials) upload.Credentials
		kind      upload.Kind
	}{
		{"unknown access key", "s3://" + bucket + "/k", func(c upload.Credentials) upload.Credentials { c.AccessKey = "AAAAAAAAAAAAAAAAAAAA"; return c }, upload.Unauthorised},
		{"wrong secret", "s3://" + bucket + "/k", func(c upload.Credentials) upload.Credentials { c.SecretKey += "x"; return c }, upload.Unauthorised},
		{"token of another session", "s3://" + bucket + "/k", func(c upload.Credentials) upload.Credentials {
			c.SessionToken = store.session(t).SessionToken
			return c
		}, upload.Unauthorised},
		{"no such bucket", "s3://elsewhere/k", func(c upload.Credentials) upload.Credentials { return c }, upload.Permanent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := uploader(t, nil).Put(t.Context(), tc.uri, tc.cred(good), []byte("x"))
			var e *upload.Error
			if !errors.As(err, &e) || e.Kind != tc.kind {
				t.Errorf("%v (%+v); want kind %v", err, e, tc.kind)
			}
		})
	}
}
