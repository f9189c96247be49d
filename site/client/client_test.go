package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

const token = "token-that-no-output-may-hold"

// asking returns a client of a service that a handler makes.
func asking(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Config{URL: srv.URL + "/", TokenFile: fileOf(t, token+"\n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// all returns the nodes of the runs that a query finds.
func all(t *testing.T, c *Client, q Query) (nodes []string, err error) {
	t.Helper()
	for j, err := range c.Jobs(t.Context(), q) {
		if err != nil {
			return nodes, err
		}
		for _, r := range j.Runs {
			nodes = append(nodes, r.Node)
		}
	}
	return nodes, nil
}

// The pages of a list are one sequence: also an empty page can have a next one. Values that the service
// does not take are left out.
func TestPages(t *testing.T) {
	pages := map[string]string{
		"":  `{"jobs":[{"cluster":"c","job_id":12,"array_job_id":null,"user":null,"runs":[{"run_id":"r1","node":"n1","attempt":0,"end":null,"summary":null,"new":[1]}]}],"next":"b"}`,
		"b": `{"other":{"a":1},"jobs":[],"next":"c"}`,
		"c": `{"next":"","jobs":[{"job_id":11,"runs":[{"node":"n2"},{"node":null}]}]}`,
	}
	var asked []string
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		if got := r.Header.Get("Authorization"); got != "Bearer "+token {
			t.Errorf("Authorization: %q", got)
		}
		fmt.Fprint(w, pages[r.URL.Query().Get("cursor")])
	})
	q := Query{
		JobID: rt.Some[uint64](12), Users: []string{"anna", "bert"}, Accounts: slices.Repeat([]string{"x"}, 17), Name: strings.Repeat("x", 201),
		Since: time.Date(2026, 3, 1, 13, 0, 0, 5, time.FixedZone("", 3600)),
	}
	nodes, err := all(t, c, q)
	if err != nil || !slices.Equal(nodes, []string{"n1", "n2", ""}) {
		t.Errorf("%q, %v", nodes, err)
	}
	const first = "/v1/jobs?job_id=12&limit=1000&since=2026-03-01T12%3A00%3A00Z&user=anna&user=bert"
	want := []string{first, "/v1/jobs?cursor=b&" + first[9:], "/v1/jobs?cursor=c&" + first[9:]}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for j, err := range c.Jobs(t.Context(), Query{}) { // a caller that wants one job asks for one page
		if err != nil || j.JobID != rt.Some[uint64](12) {
			t.Errorf("%+v, %v", j, err)
		}
		break
	}
	if len(asked) != 4 {
		t.Errorf("asked %q", asked[3:])
	}
}

// A service that sends anything else, or without an end, is refused.
func TestHostileLists(t *testing.T) {
	n := atomic.Int64{}
	for _, c := range []struct{ name, page, want string }{
		{"no JSON", "<html>", "invalid character"},
		{"no object", "[]", "belongs"},
		{"no list", `{"next":""}`, "it has no list of jobs"},
		{"a list of numbers", `{"jobs":[1]}`, "cannot unmarshal"},
		{"a text for a number", `{"jobs":[{"job_id":"x"}]}`, "cannot unmarshal string"},
		{"cut", `{"jobs":[{"job_id":1}`, "EOF"},
		{"large", `{"jobs":[{"cluster":"` + strings.Repeat("x", 3<<20) + `"}]}`, "it is larger than 2 MiB"},
		{"endless white space", `{"jobs":` + strings.Repeat(" ", 3<<20), "it is larger than 2 MiB"},
		{"the same cursor", `{"jobs":[],"next":"same"}`, "does not end"},
		{"endless", `{"jobs":[],"next":"%d"}`, "does not end"},
		{"too many", `{"jobs":[` + strings.Repeat(`{},`, 999) + `{}],"next":"%d"}`, "more than 2000 runs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := asking(t, func(w http.ResponseWriter, _ *http.Request) {
				text := strings.Replace(c.page, "%d", fmt.Sprint(n.Add(1)), 1)
				_, _ = io.WriteString(w, text) // the client may have closed the connection
			})
			client.limits = limits{page: 2 << 20, runs: 2000, emptyPages: 20}
			_, err := all(t, client, Query{})
			if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "ask the site http://127.0.0.1:") {
				t.Errorf("%v", err)
			}
			if IsTemporary(err) {
				t.Error("the error is temporary")
			}
		})
	}
}

// The limit of the bytes is for one job, not for a page: wide jobs make large pages.
func TestLargePage(t *testing.T) {
	job := `{"runs":[{"node":"n1"}],"cluster":"` + strings.Repeat("x", 1<<20) + `"}`
	client := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"jobs":[`+strings.Repeat(job+",", 9)+job+`]}`)
	})
	client.limits = limits{page: 2 << 20, runs: 2000, emptyPages: 20}
	if nodes, err := all(t, client, Query{}); err != nil || len(nodes) != 10 {
		t.Errorf("%d runs, %v", len(nodes), err)
	}
}

// Each status has its own message, and says what to do.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status    int
		header    string
		temporary bool
		want      string
	}{
		{401, "", false, "it does not know who asks (401)"},
		{403, "", false, "may not read runs there (403)"},
		{404, "", false, "(404)"},
		{429, "3600", true, "it is busy (429): retry in 1h0m0s"},
		{429, "Wed, 21 Oct 2026 07:28:00 GMT", true, "it is busy (429): retry later"},
		{503, "99999999999", true, "it has failed (503)"},
		{500, "", true, "it has failed (500)"},
		{302, "", false, "it redirects (302), which is not followed"},
		{204, "", false, "status 204"},
	} {
		n := 0
		client := asking(t, func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("Retry-After", c.header)
			w.Header().Set("Location", "/v1/jobs")
			w.WriteHeader(c.status)
			if c.status != 204 {
				fmt.Fprintf(w, `{"detail": "because\u001b[2J"}`)
			}
		})
		_, err := all(t, client, Query{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsRune(err.Error(), 0x1b) || strings.Contains(err.Error(), token) {
			t.Errorf("%d: %v", c.status, err)
		}
		if n != 1 || IsTemporary(err) != c.temporary || IsNotFound(err) != (c.status == 404) {
			t.Errorf("%d: %d requests, temporary %t, not found %t", c.status, n, IsTemporary(err), IsNotFound(err))
		}
		if c.status != 204 && !strings.Contains(err.Error(), "because") {
			t.Errorf("%d: %v", c.status, err)
		}
	}
}

// A busy service is asked again after the time that it names, and not more often.
func TestRetryAfter(t *testing.T) {
	var at []time.Time
	c := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		at = append(at, time.Now())
		if len(at) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"jobs":[],"next":""}`)
	})
	_, err := all(t, c, Query{})
	if err != nil || len(at) != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("%v, asked at %v", err, at)
	}
}

// No answer is an error that names the service.
func TestUnreachable(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	c := asking(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	})
	c.timeout = 20 * time.Millisecond
	if _, err := all(t, c, Query{}); !errors.Is(err, ErrUnreachable) || !IsTemporary(err) || !strings.Contains(err.Error(), "the time limit is over (site.timeout)") {
		t.Errorf("%v", err)
	}
	cut := asking(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"jobs":[`)
	})
	if _, err := all(t, cut, Query{}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
	gone, err := New(Config{URL: "http://127.0.0.1:1", TokenFile: fileOf(t, token)}) // nothing listens on port 1
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all(t, gone, Query{}); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "ask the site http://127.0.0.1:1: no answer: ") {
		t.Errorf("%v", err)
	}
}

func TestRecord(t *testing.T) {
	content := []byte(strings.Repeat("record", 1000))
	hash := sha256.Sum256(content)
	sum := hex.EncodeToString(hash[:])
	run := &ListedRun{ID: "2026/x", RecordSHA256: sum}
	for _, c := range []struct {
		name, etag string
		body       []byte
		limit      int64
		want       error
	}{
		{"as listed", "", content, 1 << 20, nil},
		{"with its own sum", `"` + sum + `"`, content, 1 << 20, nil},
		{"as large as it may be", "", content, int64(len(content)), nil},
		{"too large", "", content, int64(len(content)) - 1, ErrAnswer},
		{"changed", "", append([]byte("x"), content...), 1 << 20, ErrAnswer},
		{"with another sum", `"` + strings.Repeat("0", 64) + `"`, content, 1 << 20, ErrAnswer},
		{"empty", "", nil, 1 << 20, ErrAnswer},
		{"with a weak tag", `W/"` + sum + `"`, content, 1 << 20, nil},
		{"with another weak tag", `W/"` + strings.Repeat("0", 64) + `"`, content, 1 << 20, ErrAnswer},
		{"with the tag of a proxy", `"5e1-62f"`, content, 1 << 20, nil},
	} {
		for _, chunked := range []bool{false, true} {
			client := asking(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.EscapedPath() != "/v1/runs/2026%2Fx/record" {
					t.Errorf("asked %s", r.URL.EscapedPath())
				}
				if got := r.Header.Values("Accept-Encoding"); !slices.Equal(got, []string{"identity"}) {
					t.Errorf("Accept-Encoding: %q", got)
				}
				if c.etag != "" {
					w.Header().Set("ETag", c.etag)
				}
				if chunked {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(c.body) // the client may have closed the connection
			})
			client.limits.record = c.limit
			var got bytes.Buffer
			err := client.Record(t.Context(), run, &got)
			isWhole := err == nil && bytes.Equal(got.Bytes(), content)
			if !errors.Is(err, c.want) || isWhole != (c.want == nil) || int64(got.Len()) > c.limit {
				t.Errorf("%s, chunked %t: %d bytes, %v", c.name, chunked, got.Len(), err)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[]}`) }))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused certificates
	srv.StartTLS()
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for _, c := range []struct {
		conf Config
		want string // of New or of the request; empty: none
	}{
		{Config{URL: srv.URL, CAFile: fileOf(t, string(ca))}, ""},
		{Config{URL: srv.URL}, "certificate"},
		{Config{URL: srv.URL, CAFile: fileOf(t, "x")}, "has no PEM certificate"},
		{Config{URL: srv.URL, CAFile: "/no/file"}, "site.ca_file"},
		{Config{URL: srv.URL, TokenFile: "/no/file"}, "site.token_file"},
		{Config{URL: srv.URL, TokenFile: fileOf(t, "\n")}, "is not a token"},
		{Config{URL: srv.URL, TokenFile: fileOf(t, "a b\n")}, "is not a token"},
		{Config{URL: "ftp://x"}, "it must be http(s)://"},
		{Config{URL: "https://anna:secret@x"}, "xxxxx@x"},
		{Config{URL: "https://x?a=b"}, "it must be http(s)://"},
		{Config{URL: "https://x:\x7f"}, "site.url is not a URL"},
	} {
		if c.conf.TokenFile == "" {
			c.conf.TokenFile = fileOf(t, token)
		}
		client, err := New(c.conf)
		if err == nil {
			_, err = all(t, client, Query{})
			client.http.CloseIdleConnections()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%+v: %v", c.conf, err)
		}
	}
	c, err := New(Config{URL: "http://x", TokenFile: fileOf(t, token)})
	if err != nil || strings.Contains(fmt.Sprintf("%+v %#v", c, *c), token) {
		t.Errorf("%v, or the client prints its token", err)
	}
}

func TestClearText(t *testing.T) {
	for at, want := range map[string]bool{
		"https://rt.example.org": false, "http://localhost:1": false, "http://127.0.0.1:1": false, "http://[::1]:1": false,
		"http://rt.example.org": true, "http://192.0.2.1:8470/rt": true, "http://localhost.example.org": true,
	} {
		for _, name := range []string{"", fileOf(t, token)} {
			c, err := New(Config{URL: at, TokenFile: name})
			if err != nil {
				t.Fatal(err)
			}
			if isToken := name != ""; c.ClearText() != (want && isToken) {
				t.Errorf("%s, token %v: %v", at, isToken, c.ClearText())
			}
		}
	}
}

// The proxy of the environment passes on https only: with http it would read the token.
func TestProxy(t *testing.T) {
	used := false
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		used = true
		http.Error(w, "no", http.StatusBadGateway)
	}))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	c, err := New(Config{URL: "http://rt.invalid", TokenFile: fileOf(t, token), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	if _, err := all(t, c, Query{}); !IsTemporary(err) || used {
		t.Errorf("%v; the proxy was used: %v", err, used)
	}
}

// A script in the place of munge shows its standard input and its arguments.
func TestMunge(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "munge"), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got, host string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header.Get("Authorization"), r.Host
		fmt.Fprint(w, `{"jobs":[]}`)
	}))
	defer srv.Close()
	socket := ""
	ask := func() error {
		c, err := New(Config{URL: srv.URL + "/rt", Munged: socket})
		if err != nil {
			t.Fatal(err)
		}
		defer c.http.CloseIdleConnections()
		_, err = all(t, c, Query{Users: []string{"anna"}})
		return err
	}
	script("[ $# = 0 ] && cat >" + dir + "/payload && echo MUNGE:x:")
	if err := ask(); err != nil || got != "MUNGE MUNGE:x:" {
		t.Errorf("%v, Authorization: %q", err, got)
	}
	payload, err := os.ReadFile(filepath.Join(dir, "payload"))
	if want := "rt-site/1\nGET\n" + host + "\n/rt/v1/jobs?limit=1000&user=anna"; err != nil || string(payload) != want {
		t.Errorf("%q, %v, want %q", payload, err, want)
	}
	socket, got = "/run/other socket", ""
	script(`[ $# = 1 ] && [ "$1" = "--socket=/run/other socket" ] && cat >/dev/null && echo MUNGE:y:`)
	if err := ask(); err != nil || got != "MUNGE MUNGE:y:" {
		t.Errorf("with a socket: %v, Authorization: %q", err, got)
	}
	for text, want := range map[string]string{
		"cat >/dev/null; echo 'munge: Error: Failed to access \"/run/munge/munge.socket.2\"' >&2; exit 6": "Failed to access",
		"cat >/dev/null; echo no":                "munge printed no credential",
		"cat >/dev/null; printf 'MUNGE:a\nb:\n'": "munge printed no credential",
		"cat >/dev/null; yes | head -c 1000000":  "munge printed no credential",
	} {
		script(text)
		if err := ask(); !errors.Is(err, ErrCredential) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	t.Setenv("PATH", "")
	if err := ask(); !errors.Is(err, ErrCredential) || !strings.Contains(err.Error(), "munge is not installed") {
		t.Errorf("%v", err)
	}
}

// A credential of MUNGE is for one request: no connection is kept, on which a Transport sends it again.
func TestMungeKeepsNoConnection(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if err := os.WriteFile(filepath.Join(dir, "munge"), []byte("#!/bin/sh\ncat >/dev/null; echo MUNGE:x:\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, conf := range []Config{{}, {TokenFile: fileOf(t, token)}} {
		connections := map[string]bool{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connections[r.RemoteAddr] = true
			fmt.Fprint(w, `{"jobs":[]}`)
		}))
		defer srv.Close()
		conf.URL = srv.URL
		c, err := New(conf)
		if err != nil {
			t.Fatal(err)
		}
		defer c.http.CloseIdleConnections()
		for range 3 {
			if _, err := all(t, c, Query{}); err != nil {
				t.Fatal(err)
			}
		}
		isMunge := conf.TokenFile == ""
		if isMunge != (len(connections) == 3) {
			t.Errorf("MUNGE %t: %d connections", isMunge, len(connections))
		}
	}
}
