package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/site"
)

const credential = "MUNGE:AwQDAAB3/secret+of+the+user==:"

// request is a request with a credential.
func request(authorization string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/jobs?limit=3", nil)
	r.Host = "site.example:8470"
	r.Header.Set("Authorization", authorization)
	return r
}

// fakeMunge is a decoder with a program that prints a text and exits with a status.
func fakeMunge(t *testing.T, out, status string) (m *Munge, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{"out": out, "status": status} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program, err := filepath.Abs("testdata/unmunge")
	if err != nil {
		t.Fatal(err)
	}
	return NewMunge(program, dir), dir
}

func newReaders(t *testing.T, c Config) *Readers {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decoded is what unmunge prints for a credential of root.
func decoded(uid, payload string) string {
	return "STATUS:          0\nUID:             " + uid + "\n\n" + payload
}

func TestMunge(t *testing.T) {
	payload := MungePayload(request(""))
	if want := "rt-site/1\nGET\nsite.example:8470\n/v1/jobs?limit=3"; payload != want {
		t.Errorf("payload %q, want %q", payload, want)
	}
	other := errors.New("another error")
	for _, c := range []struct {
		name, out, status string
		want              error
	}{
		{"valid", decoded("0", payload), "0", nil},
		{"valid, not numeric", decoded("root (0)", payload), "0", other},
		{"another request", decoded("0", strings.Replace(payload, "jobs", "runs", 1)), "0", site.ErrUnknownReader},
		{"another host", decoded("0", strings.Replace(payload, "site", "evil", 1)), "0", site.ErrUnknownReader},
		{"another method", decoded("0", strings.Replace(payload, "GET", "POST", 1)), "0", site.ErrUnknownReader},
		{"another version", decoded("0", strings.Replace(payload, "/1", "/2", 1)), "0", site.ErrUnknownReader},
		{"a longer payload", decoded("0", payload+"\n"), "0", site.ErrUnknownReader},
		{"a very long payload", decoded("0", payload+strings.Repeat("x", 1<<20)), "0", site.ErrUnknownReader},
		{"no payload", decoded("0", ""), "0", site.ErrUnknownReader},
		{"the payload looks like metadata", decoded("0", "UID: 1\n\n"+payload), "0", site.ErrUnknownReader},
		{"a user that this machine does not know", decoded("4294967294", payload), "0", site.ErrNoReader},
		{"no output", "", "0", other},
		{"status in the output", strings.Replace(decoded("0", payload), ":          0", ":          17", 1), "0", other},
		{"damaged", "", "8", site.ErrUnknownReader}, {"another key", "", "14", site.ErrUnknownReader},
		{"expired", decoded("0", payload), "15", site.ErrUnknownReader}, {"rewound", decoded("0", payload), "16", site.ErrUnknownReader},
		{"replayed", decoded("0", payload), "17", site.ErrUnknownReader}, {"for another user", decoded("0", payload), "18", site.ErrUnknownReader},
		{"munged does not run", "", "6", other}, {"unknown status", decoded("0", payload), "99", other},
	} {
		m, dir := fakeMunge(t, c.out, c.status)
		reader, err := newReaders(t, Config{Munge: m}).Reader(request("MUNGE " + credential))
		isOther := c.want == other && err != nil && !errors.Is(err, site.ErrUnknownReader) && !errors.Is(err, site.ErrNoReader)
		if !isOther && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err != nil && (reader.User != "" || reader.Operator) {
			t.Errorf("%s: %+v with an error", c.name, reader)
		}
		if err == nil && (reader.User != "root" || reader.Operator || reader.Access() == nil) {
			t.Errorf("%s: %+v", c.name, reader)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the credential is in %v", c.name, err)
		}
		if given, _ := os.ReadFile(filepath.Join(dir, "stdin")); string(given) != credential {
			t.Errorf("%s: standard input %q", c.name, given)
		}
		if args, _ := os.ReadFile(filepath.Join(dir, "args")); strings.Contains(string(args), "secret") {
			t.Errorf("%s: arguments %q", c.name, args)
		}
	}
}

// What is not a credential is refused without a process.
func TestNoCredential(t *testing.T) {
	m, dir := fakeMunge(t, decoded("0", MungePayload(request(""))), "0")
	a := newReaders(t, Config{Munge: m})
	for _, authorization := range []string{
		"", "MUNGE", "MUNGE ", "MUNGE MUNGE:", "MUNGE MUNGE::", "MUNGE x", "MUNGE " + credential + " --help", "MUNGE -" + credential,
		"MUNGE MUNGE:a\nb:", "MUNGE MUNGE:" + strings.Repeat("x", credentialMax) + ":", "Basic " + credential, credential, "Bearer " + credential, "Bearer", "Bearer ",
	} {
		if _, err := a.Reader(request(authorization)); !errors.Is(err, site.ErrUnknownReader) {
			t.Errorf("%q: %v", authorization, err)
		}
	}
	r := request("MUNGE " + credential)
	r.Header.Add("Authorization", "MUNGE "+credential)
	if _, err := a.Reader(r); !errors.Is(err, site.ErrUnknownReader) {
		t.Errorf("two headers: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "args")); err == nil {
		t.Error("unmunge was run")
	}
	if _, err := newReaders(t, Config{}).Reader(request("MUNGE " + credential)); !errors.Is(err, site.ErrUnknownReader) {
		t.Errorf("MUNGE is off: %v", err)
	}
}

// A decoder that does not answer is ended with its request, and takes no turns of others for ever.
func TestMungeDoesNotAnswer(t *testing.T) {
	m, dir := fakeMunge(t, "", "hang")
	a := newReaders(t, Config{Munge: m})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3*mungeMax)
	for range 3 * mungeMax {
		go func() {
			_, err := a.Reader(request("MUNGE " + credential).WithContext(ctx))
			ended <- err
		}()
	}
	await.File(t, filepath.Join(dir, "stdin"))
	cancel()
	for range 3 * mungeMax {
		if err := <-ended; err == nil {
			t.Error("a reader without an answer of unmunge")
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), []byte("15"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Reader(request("MUNGE " + credential)); !errors.Is(err, site.ErrUnknownReader) {
		t.Error(err)
	}
}
