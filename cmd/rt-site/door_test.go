package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site/registry"
)

// unmunge decodes the credentials of credentialOf, as unmunge decodes real ones.
const unmunge = `#!/bin/sh
read -r text
text=${text#MUNGE:}
echo 'STATUS: 0'
printf %s "${text%:}" | base64 -d
`

// uids are the users of the tests: each Linux has them.
var uids = map[string]int{"root": 0, "daemon": 1, "bin": 2}

// credentialOf is a credential of a user for a request.
func credentialOf(user, method, address string) string {
	at, _ := url.Parse(address)
	payload := "rt-site/1\n" + method + "\n" + at.Host + "\n" + at.RequestURI()
	return "MUNGE MUNGE:" + base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "UID: %d\n\n%s", uids[user], payload)) + ":"
}

// newDoor starts the service with munge, and with a job each of daemon (1) and bin (2). It returns its URL and directory.
func newDoor(t *testing.T, more ...string) (base, dir string) {
	t.Helper()
	programs, dir, spools := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "unmunge"), []byte(unmunge), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{})
	for n, user := range []string{"daemon", "bin", "daemon"} {
		if err == nil {
			err = storeJob(t.Context(), spools, r, n+1, func(run *rt.Run) {
				run.User, run.Account, run.Partition, run.Meta.JobName = user, user+"-lab", "batch", "train-"+user
			})
		}
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return servePages(t, dir, append(more, `munge = "on"`, `operators = ["root"]`, "")...), dir
}

// browser is a client that keeps cookies, follows no redirect and, as browsers do, says from where a request comes.
type browser struct {
	t       *testing.T
	base    string
	cookies map[string]*http.Cookie
	from    string // Sec-Fetch-Site
}

func newBrowser(t *testing.T, base string) *browser {
	return &browser{t: t, base: base, cookies: map[string]*http.Cookie{}, from: "none"}
}

// do sends a request for an address below the site, and returns the answer with its body read.
func (b *browser) do(method, path string, header ...string) (*http.Response, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+"/"+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.from != "" {
		r.Header.Set("Sec-Fetch-Site", b.from)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
			continue
		}
		b.cookies[c.Name] = c
	}
	return resp, string(text)
}

// want checks the status of an answer and texts in it.
func (b *browser) want(method, path string, status int, has ...string) string {
	b.t.Helper()
	resp, body := b.do(method, path)
	if resp.StatusCode != status {
		b.t.Errorf("%s %s: %d, want %d: %.300s", method, path, resp.StatusCode, status, body)
	}
	for _, text := range has {
		if !strings.Contains(body, text) {
			b.t.Errorf("%s %s lacks %q: %.2000s", method, path, text, body)
		}
	}
	return body
}

// ask asks for a link as rt-job does.
func ask(t *testing.T, base, user, query string) (status int, link string, body string) {
	t.Helper()
	address := base + "/links?" + query
	b := newBrowser(t, base)
	b.from = ""
	resp, body := b.do(http.MethodPost, "links?"+query, "Authorization", credentialOf(user, http.MethodPost, address))
	var made struct {
		URL     string
		Expires time.Time
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &made); err != nil || !made.Expires.After(time.Now()) {
			t.Fatalf("%v: %s", err, body)
		}
		checkLink(t, b, body)
	}
	return resp.StatusCode, made.URL, body
}

// checkLink checks that a link has the form that the description of the API gives.
func checkLink(t *testing.T, b *browser, link string) {
	t.Helper()
	var doc map[string]any
	var v any
	_, text := b.do(http.MethodGet, "v1/openapi.json")
	err := errors.Join(json.Unmarshal([]byte(text), &doc), json.Unmarshal([]byte(link), &v))
	if err == nil {
		err = (schemas{doc}).check(map[string]any{"$ref": "#/components/schemas/Link"}, v, "link")
	}
	if err != nil {
		t.Error(err)
	}
}

// login returns a browser with a session of a user.
func login(t *testing.T, base, user string) *browser {
	t.Helper()
	status, link, body := ask(t, base, user, "for=web")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	b := newBrowser(t, base)
	resp, _ := b.do(http.MethodGet, link)
	if resp.StatusCode != http.StatusSeeOther || len(b.cookies) != 1 {
		t.Fatalf("%d, %v", resp.StatusCode, b.cookies)
	}
	b.from = "same-origin"
	return b
}

func TestTheDoor(t *testing.T) {
	base, _ := newDoor(t)
	stranger := newBrowser(t, base)
	resp, body := stranger.do(http.MethodGet, "jobs")
	challenges := resp.Header.Values("WWW-Authenticate")
	asksForPassword := slices.ContainsFunc(challenges, func(c string) bool { return strings.HasPrefix(c, "Basic") })
	if resp.StatusCode != 401 || len(challenges) == 0 || asksForPassword || !strings.Contains(body, "<code>rt-job web</code>") || strings.Contains(body, "<nav") {
		t.Errorf("%d, %q: %s", resp.StatusCode, challenges, body)
	}
	stranger.want("GET", "style.css", 200)
	resp, _ = stranger.do(http.MethodGet, "token")
	if challenge := resp.Header.Values("WWW-Authenticate"); resp.StatusCode != 401 || !slices.ContainsFunc(challenge, func(c string) bool { return strings.HasPrefix(c, "Basic") }) {
		t.Errorf("token: %d, %q", resp.StatusCode, challenge)
	}
	if status, _, _ := getPage(t, base+"/token", "page-all"); status != 200 {
		t.Errorf("token with a read token: %d", status)
	}
	for query, want := range map[string]string{
		"for=web": "./", "for=web&job=1": "job?cluster=c&generation=1&id=1", "for=web&job=": "./",
	} {
		status, link, body := ask(t, base, "daemon", query)
		if status != 200 {
			t.Fatalf("%s: %d %s", query, status, body)
		}
		b := newBrowser(t, base)
		resp, _ := b.do(http.MethodGet, link)
		h := resp.Header
		if resp.StatusCode != 303 || h.Get("Location") != want || h.Get("Referrer-Policy") != "strict-origin" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", query, resp.StatusCode, h)
		}
		b.want("GET", strings.TrimPrefix(want, "./"), 200, "daemon")
		b.want("GET", "job?cluster=c&id=2", 404)
		b.want("GET", "v1/whoami", 200, `"user":"daemon"`, `"by":"session"`)
		b.want("GET", link, 403, "This link is not valid any more")
		b.want("HEAD", link, 404)
	}
	for query, status := range map[string]int{"for=web&job=2": 404, "for=web&job=x": 404, "for=other": 400, "for=share": 404, "for=share&job=2": 404, "for=web&job=1_1": 404} {
		if got, _, body := ask(t, base, "daemon", query); got != status || !strings.HasPrefix(body, `{"detail":"`) {
			t.Errorf("%s: %d %s", query, got, body)
		}
	}
	newBrowser(t, base).want("GET", "links", 405, "only POST is possible here")
	for _, token := range []string{"page-alice", "page-all"} {
		resp, body := newBrowser(t, base).do(http.MethodPost, "links?for=web", "Authorization", "Bearer "+token)
		if resp.StatusCode != 403 || !strings.Contains(body, "MUNGE") {
			t.Errorf("a link for a token: %d %s", resp.StatusCode, body)
		}
	}
	login(t, base, "daemon").want("POST", "links?for=web", 403)
}

func TestLogout(t *testing.T) {
	base, dir := newDoor(t)
	b, other := login(t, base, "daemon"), login(t, base, "daemon")
	stolen := newBrowser(t, base)
	for name, c := range b.cookies {
		stolen.cookies[name] = c
	}
	stolen.want("GET", "jobs", 200, `<a href="logout">Log out</a>`)
	b.want("GET", "logout", 200, `<form method="post" action="logout">`)
	b.want("GET", "jobs", 200)
	b.want("POST", "logout", 303)
	if len(b.cookies) > 0 {
		t.Errorf("after the logout there is %v", b.cookies)
	}
	stolen.want("GET", "jobs", 401)
	stolen.want("GET", "v1/jobs", 401)
	other.want("GET", "jobs", 200)
	r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	n, err := r.Sessions.Revoke(t.Context(), "daemon", "")
	if err := errors.Join(err, r.Close()); err != nil || n != 1 {
		t.Fatalf("%d, %v", n, err)
	}
	other.want("GET", "jobs", 401)
	forged := newBrowser(t, base)
	forged.cookies["rt-session"] = &http.Cookie{Name: "rt-session", Value: strings.Repeat("A", 43)}
	forged.want("GET", "jobs", 401)
}

// No request that a page of another site sends changes anything.
func TestRequestsOfOtherSites(t *testing.T) {
	base, _ := newDoor(t)
	b := login(t, base, "daemon")
	share := "share?cluster=c&generation=1&id=1"
	b.want("POST", share, 200)
	revoke := regexp.MustCompile(`revoke=[0-9a-f]{16}`).FindString(b.want("GET", share, 200))
	_, link, _ := ask(t, base, "daemon", "for=web")
	for _, path := range []string{"logout", share, share + "&" + revoke, "links?for=web", "links?for=share&job=1", link, "runs", "runs/x/finish"} {
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"}} {
			resp, body := b.do(http.MethodPost, path, header...)
			if resp.StatusCode != 403 || !strings.Contains(body, "a page of another site has sent this request") {
				t.Errorf("POST %s with %q: %d %s", path, header, resp.StatusCode, body)
			}
		}
	}
	for _, path := range []string{"nodes", "live", "rt/runs/x/y"} {
		if resp, body := b.do(http.MethodPut, path, "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 || !strings.Contains(body, "another site") {
			t.Errorf("PUT %s: %d %s", path, resp.StatusCode, body)
		}
	}
	if got := strings.Count(b.want("GET", share, 200), ">Revoke<"); got != 1 {
		t.Errorf("there are %d shares", got)
	}
	b.want("GET", "jobs", 200)
	// A page of another site that opens a link has to leave the decision to the person.
	victim := newBrowser(t, base)
	for _, from := range []string{"cross-site", "same-site"} {
		victim.from = from
		victim.want("GET", link, 200, `<form method="post" action="`+link+`">`)
	}
	if len(victim.cookies) > 0 {
		t.Errorf("the link has set %v", victim.cookies)
	}
	victim.from = "same-origin"
	victim.want("POST", link, 303)
	victim.want("GET", "jobs", 200, "train-daemon")
}

// What opens a link without a person does not use it up: a preview, a prefetch, a page of another site.
func TestALinkNeedsAPerson(t *testing.T) {
	base, _ := newDoor(t)
	_, link, _ := ask(t, base, "daemon", "for=web")
	b := newBrowser(t, base)
	b.want("HEAD", link, 404)
	for _, header := range [][]string{
		{"Sec-Fetch-Site", ""}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Purpose", "prefetch"}, {"Sec-Purpose", "prefetch;prerender"},
	} {
		resp, body := b.do(http.MethodGet, link, header...)
		if resp.StatusCode != 200 || len(b.cookies) > 0 || !strings.Contains(body, `<form method="post" action="`+link+`">`) {
			t.Errorf("GET with %q: %d, %v: %s", header, resp.StatusCode, b.cookies, body)
		}
	}
	b.want("GET", link, 303)
	b.want("GET", "jobs", 200)
}

// Without TLS browsers say only by Origin which page sends a form. It is null after Referrer-Policy: no-referrer.
func TestFormsWithoutTLS(t *testing.T) {
	base, _ := newDoor(t)
	b := newBrowser(t, base)
	_, link, _ := ask(t, base, "daemon", "for=web")
	b.from = ""
	for _, path := range []string{link, "share?cluster=c&id=1", "logout"} {
		resp, body := b.do(http.MethodGet, path)
		policy := resp.Header.Get("Referrer-Policy")
		if resp.StatusCode != 200 || !strings.Contains(body, `<form method="post"`) || policy != "strict-origin" {
			t.Errorf("GET %s: %d, Referrer-Policy %s", path, resp.StatusCode, policy)
		}
		if resp, body := b.do(http.MethodPost, path, "Origin", base); resp.StatusCode != 303 && resp.StatusCode != 200 {
			t.Errorf("POST %s: %d %s", path, resp.StatusCode, body)
		}
	}
	b.want("GET", "jobs", 401)
}

// An array can have no row with its own id. When Slurm uses the id again, a share of the array shows no other job.
func TestAShareOfAnArrayIsPinned(t *testing.T) {
	base, dir := newDoor(t)
	store := func(n int, change func(*rt.Run)) {
		t.Helper()
		r, err := registry.Open(t.Context(), filepath.Join(dir, "registry.db"), registry.Config{Existing: true})
		if err == nil {
			err = storeJob(t.Context(), t.TempDir(), r, n, change)
		}
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	}
	store(41, func(run *rt.Run) {
		run.User, run.Meta.JobName, run.ArrayJobID, run.ArrayTaskID = "daemon", "the-array", rt.Some[uint64](40), rt.Some[uint64](7)
	})
	status, link, body := ask(t, base, "root", "for=share&job=40")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	newBrowser(t, base).want("GET", link, 200, "the-array")
	store(40, func(run *rt.Run) {
		run.User, run.Meta.JobName, run.Start = "bin", "another-job", run.Start.AddDate(0, 1, 0)
	})
	login(t, base, "root").want("GET", "job?cluster=c&id=40", 200, "another-job")
	page := newBrowser(t, base).want("GET", link, 200, "the-array")
	if strings.Contains(page, "another-job") {
		t.Error("the share shows another job")
	}
}

// A share shows one job, to everyone, and nothing else.
func TestShare(t *testing.T) {
	base, _ := newDoor(t, `share_life = "48h"`)
	b := login(t, base, "daemon")
	b.want("GET", "job?cluster=c&id=1", 200, "share?cluster=c")
	body := b.want("POST", "share?cluster=c&id=1", 200, "The new link", "Revoke")
	byPage := regexp.MustCompile(`job\?share=[^"]+`).FindString(body)
	status, byJob, text := ask(t, base, "daemon", "for=share&job=1")
	if status != 200 || byPage == "" {
		t.Fatalf("%d %s, %q", status, text, byPage)
	}
	for _, link := range []string{byPage, byJob} {
		secret := strings.TrimPrefix(link, "job?")
		everyone := newBrowser(t, base)
		everyone.from = "cross-site" // a link in a mail
		page := everyone.want("GET", link, 200, "train-daemon", "report.json?share=")
		for _, other := range []string{`href="jobs"`, `href="users"`, "v1/runs", `href="logout"`, `href="share`} {
			if strings.Contains(page, other) {
				t.Errorf("the shared page has %s", other)
			}
		}
		everyone.want("GET", "report.html?"+secret, 200, "train-daemon")
		everyone.want("GET", "report.json?"+secret, 200, `"job_name": "train-daemon"`)
		// The job of the link is shown, whatever else the address has.
		if page := everyone.want("GET", "job?cluster=c&id=3&generation=1&"+secret, 200); !strings.Contains(page, "Job 1 ") || strings.Contains(page, "Job 3 ") {
			t.Errorf("another job is shown: %.2000s", page)
		}
		for _, path := range []string{
			"", "jobs", "users", "accounts", "nodes", "share?cluster=c&id=1", "metrics", "v1/jobs", "v1/runs", "v1/whoami", "v1/runs/20260301t120000-00000000000000000000000001/csv", "token",
		} {
			separator := "?"
			if strings.Contains(path, "?") {
				separator = "&"
			}
			everyone.want("GET", path+separator+secret, 401)
		}
		everyone.want("POST", "logout?"+secret, 403)
		everyone.from = "same-origin"
		everyone.want("POST", "share?cluster=c&id=1&"+secret, 401)
		everyone.want("POST", "links?for=share&job=1&"+secret, 401)
		if len(everyone.cookies) > 0 {
			t.Errorf("a share sets %v", everyone.cookies)
		}
		resp, _ := everyone.do(http.MethodGet, link)
		if resp.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Error("the secret of a share is in Referer")
		}
		everyone.want("GET", link+"x", 403, "has expired or was revoked")
	}
	newBrowser(t, base).want("GET", "job?share=x", 403)
	login(t, base, "bin").want("GET", "share?cluster=c&id=1", 404)
	page := b.want("GET", "share?cluster=c&id=1", 200)
	revoke := regexp.MustCompile(`share\?[^"]*revoke=[0-9a-f]{16}`).FindAllString(page, -1)
	if len(revoke) != 2 {
		t.Fatalf("%q in %s", revoke, page)
	}
	other := login(t, base, "root")
	for _, path := range revoke {
		path = strings.ReplaceAll(path, "&amp;", "&")
		other.want("POST", path, 303) // not of root: nothing happens
	}
	newBrowser(t, base).want("GET", byPage, 200)
	for _, path := range revoke {
		b.want("POST", strings.ReplaceAll(path, "&amp;", "&"), 303)
	}
	newBrowser(t, base).want("GET", byPage, 403, "has expired or was revoked")
	newBrowser(t, base).want("GET", byJob, 403, "has expired or was revoked")
}
