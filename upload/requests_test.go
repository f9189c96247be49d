package upload_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

var update = flag.Bool("update", false, "write testdata/requests.txtar again")

// A receiver without records gets the same requests whether it announces other extensions,
// announces another version, or speaks the other dialect. A receiver of records also gets the
// record, and the finish names it.
func TestRequests(t *testing.T) {
	const golden = "testdata/requests.txtar"
	want, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range want.Files {
		texts[f.Name] = string(f.Data)
	}
	got := &txtar.Archive{}
	for _, c := range []struct{ golden, dialect, extensions string }{
		{"spec", upload.DialectSpec, ``},
		{"live", upload.DialectLive, ``},
		{"spec", upload.DialectSpec, `"extensions":{"rt.record":2,"rt.other":1},`},
		{"spec", upload.DialectSpec, `"extensions":["rt.record"],`},
		{"live", upload.DialectLive, `"extensions":{"rt.record":1},`},
		{"records", upload.DialectSpec, `"extensions":{"rt.other":{},"rt.record":1},`},
	} {
		text := requests(t, c.dialect, c.extensions)
		if c.extensions == "" || c.golden == "records" {
			got.Files = append(got.Files, txtar.File{Name: c.golden, Data: []byte(text)})
		}
		if !*update && text != texts[c.golden] {
			t.Errorf("%s with %s:\n%swant:\n%s", c.dialect, c.extensions, text, texts[c.golden])
		}
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// requests drains a run to a receiver that answers with these extensions, first while it is tracked, and
// returns the requests.
func requests(t *testing.T, dialect, extensions string) string {
	t.Helper()
	const credentials = `"upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t","region":"eu"}}`
	var mu sync.Mutex
	var log strings.Builder
	web := &http.Client{Transport: inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&log, "%s %s\n", r.Method, r.URL.Path)
		for _, name := range []string{"Content-Type", "Content-Encoding"} {
			if v := r.Header.Get(name); v != "" {
				fmt.Fprintf(&log, "%s: %s\n", name, v)
			}
		}
		if r.Method == http.MethodPut {
			fmt.Fprintf(&log, "%d bytes %x\n\n", len(body), sha256.Sum256(body))
			return
		}
		fmt.Fprintf(&log, "%s\n\n", body)
		switch {
		case r.URL.Path == "/runs":
			_, err = io.WriteString(w, `{"run_id":"r1","upload_uri_prefix":"s3://b/p",`+extensions+credentials)
		case strings.HasSuffix(r.URL.Path, "/refresh-credentials"):
			_, err = io.WriteString(w, "{"+credentials)
		default:
			_, err = io.WriteString(w, "{}")
		}
		if err != nil {
			t.Error(err)
		}
	})}}
	client, err := sentinel.New(sentinel.Config{HTTP: web, Endpoint: "http://receiver.example", Token: token, Dialect: dialect})
	store, err2 := s3.New(s3.Config{HTTP: web, Endpoint: "http://receiver.example"})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	r := newRun(1, 5)
	all := r.snaps
	r.snaps = all[:3]
	if _, err := upload.Drain(t.Context(), liveDir{dirOf(r)}, client, store, upload.DrainOptions{Live: true}); err != nil {
		t.Fatal(err)
	}
	r.snaps = all
	if _, err := upload.Drain(t.Context(), dirOf(r), client, store, upload.DrainOptions{}); err != nil {
		t.Fatal(err)
	}
	return log.String()
}
