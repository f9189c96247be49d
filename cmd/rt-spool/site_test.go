package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/registry"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
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
	var h *api.Server
	var closeAll func() error
	reports := sitereport.New(sitereport.Maker{
		Open:    func(ctx context.Context, runID string) (io.ReadCloser, error) { return h.OpenRecord(ctx, runID) },
		Command: func(ctx context.Context, dir string) *exec.Cmd { return exec.CommandContext(ctx, "render", dir) },
		Temp:    ts.MkAbs("."),
	})
	h, closeAll, err = testsite.OpenWith(context.Background(), ts.MkAbs("received"), testToken, testsite.Config{RunOf: archive.Check, Readers: readers, Report: reports.Write},
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

// render is the process in which rt-site makes the report of a job for its API.
func render() {
	job, err := sitereport.Load(context.Background(), os.Args[1], func(context.Context, *spool.Reader, *report.Summary) error { return nil })
	if err == nil {
		err = rtcli.PrintJSON(os.Stdout, runs.DetailsOf(job.Jobs, report.DefaultPrices))
	}
	if err != nil {
		panic(err)
	}
}

// cmdAPI prints a member of the JSON that the site has at a path: api PATH MEMBER.
func cmdAPI(ts *testscript.TestScript, _ bool, args []string) {
	r, err := http.NewRequest(http.MethodGet, ts.Getenv("SITE")+args[0], nil)
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+siteToken)
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	var members map[string]json.RawMessage
	ts.Check(json.NewDecoder(answer.Body).Decode(&members))
	var out bytes.Buffer
	ts.Check(json.Indent(&out, members[args[1]], "", "  "))
	fmt.Fprintln(ts.Stdout(), out.String())
}
