package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/registry"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload/drain"
)

const (
	siteToken = "read-token-that-no-output-may-hold"
	siteKey   = "the key of pseudonyms of a site of tests" // in the file site-key
)

// cmdSite starts the service of a site and writes its address into rt.toml. Two more files are for
// machines that ask the site: third.toml with a spool directory that does not exist, and node.toml
// with the directory a. In gone.toml nothing listens at the address. The file asked gets a line for each list of jobs
// that is asked for.
func cmdSite(ts *testscript.TestScript, _ bool, _ []string) {
	readers, err := auth.New(auth.Config{})
	ts.Check(err)
	tokens, err := auth.ParseTokens([]byte(siteToken + "\n"))
	ts.Check(err)
	readers.SetTokens(tokens)
	ts.Check(os.WriteFile(ts.MkAbs("site-key"), []byte(siteKey), 0o600))
	h, closeAll, err := testsite.OpenWith(context.Background(), ts.MkAbs("received"), testToken, testsite.Config{RunOf: archive.Check, Readers: readers},
		registry.Config{Pseudonym: func(user string) string { return drain.UserPseudonym([]byte(siteKey), user) }})
	ts.Check(err)
	ts.Defer(func() { ts.Check(closeAll()) })
	server := httptest.NewServer(countLists(ts.MkAbs("asked"), h))
	ts.Defer(server.Close)
	ts.Setenv("SITE", server.URL)
	ts.Check(writeConfig(ts.MkAbs("."), server.URL))
	ts.Check(os.WriteFile(ts.MkAbs("read-token"), []byte(siteToken+"\n"), 0o600))
	for name, c := range map[string]struct{ dir, url string }{
		"third.toml": {"no-spool", server.URL}, "node.toml": {"a", server.URL}, "gone.toml": {"a", "http://127.0.0.1:1"}, // nothing listens on port 1
	} {
		text := fmt.Sprintf("[spool]\ndir = %q\n[site]\nsqueue = \"off\"\nurl = %q\ntoken_file = %q\n", ts.MkAbs(c.dir), c.url, ts.MkAbs("read-token"))
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// countLists adds a line to a file for each request of a list of jobs.
func countLists(file string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/jobs" {
			h.ServeHTTP(w, r)
			return
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = fmt.Fprintln(f, r.URL.RawQuery)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}
