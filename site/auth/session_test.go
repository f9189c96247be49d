package auth

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// entrance is a site with a clock of its own.
type entrance struct {
	readers  *Readers
	sessions *Sessions
	store    *registry.Sessions
	now      time.Time
}

func newEntrance(t *testing.T, c SessionConfig) *entrance {
	t.Helper()
	r, err := registry.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &entrance{readers: newReaders(t, Config{}), store: r.Sessions, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.Store, c.Key, c.Now = r.Sessions, []byte("key"), func() time.Time { return e.now }
	e.sessions, err = NewSessions(c)
	if err != nil {
		t.Fatal(err)
	}
	e.readers.UseSessions(e.sessions)
	return e
}

// link returns the secret of a new link of a user.
func (e *entrance) link(t *testing.T, user string) string {
	t.Helper()
	secret, expires, err := e.sessions.NewLink(visit(), site.Reader{By: "munge", User: user}, "jobs?user="+user)
	if err != nil || expires != e.now.Add(time.Minute) {
		t.Fatalf("%v, %v", expires, err)
	}
	return secret
}

// visit is a request of a browser with cookies.
func visit(cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest("GET", "/enter", nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

// enter opens a link, and returns the cookie that it sets; nil for none.
func (e *entrance) enter(secret string, cookies ...*http.Cookie) (page string, set *http.Cookie, err error) {
	w := httptest.NewRecorder()
	page, err = e.sessions.Enter(w, visit(cookies...), secret)
	for _, c := range w.Result().Cookies() {
		set = c
	}
	return page, set, err
}

// user returns the reader of a request with a cookie; "" for no one.
func (e *entrance) user(t *testing.T, c *http.Cookie) string {
	t.Helper()
	reader, err := e.readers.Reader(visit(c))
	isKnown := err == nil && reader.By == "session" && reader.Name == "session:"+reader.User && !reader.Operator
	switch {
	case isKnown:
		return reader.User
	case errors.Is(err, site.ErrUnknownReader):
		return ""
	}
	t.Fatalf("%+v, %v", reader, err)
	return ""
}

func (e *entrance) mustEnter(t *testing.T, user string) *http.Cookie {
	t.Helper()
	page, c, err := e.enter(e.link(t, user))
	if err != nil || page != "jobs?user="+user || c == nil {
		t.Fatalf("%s, %v, %v", page, c, err)
	}
	return c
}

func TestALinkBeginsASession(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	c := e.mustEnter(t, "alice")
	if got := e.user(t, c); got != "alice" {
		t.Errorf("the cookie is of %q", got)
	}
	isSafe := c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.MaxAge == 12*3600 && c.Path == "/" && c.Domain == "" && !c.Secure && len(c.Value) == 43
	if !isSafe {
		t.Errorf("the cookie is %v", c)
	}
	e.now = e.now.Add(12*time.Hour - time.Second)
	if got := e.user(t, c); got != "alice" {
		t.Errorf("before the end the cookie is of %q", got)
	}
	e.now = e.now.Add(time.Second)
	if got := e.user(t, c); got != "" {
		t.Errorf("after 12 hours the cookie is of %q", got)
	}
}

func TestLinksThatAreNotValid(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	used, old := e.link(t, "alice"), e.link(t, "alice")
	if _, _, err := e.enter(used); err != nil {
		t.Fatal(err)
	}
	late := e.now.Add(time.Minute)
	for name, c := range map[string]struct {
		secret string
		at     time.Time
	}{
		"twice": {used, e.now}, "after a minute": {old, late}, "forged": {strings.Repeat("A", 43), e.now}, "empty": {"", e.now},
		"a hash": {fmt.Sprintf("%x", site.HashToken(old)), e.now},
	} {
		e.now = c.at
		page, cookie, err := e.enter(c.secret)
		isRefused := errors.Is(err, ErrRefused) && cookie == nil && page == ""
		if !isRefused || !strings.Contains(err.Error(), "rt-job web makes a new one") {
			t.Errorf("%s: %q, %v, %v", name, page, cookie, err)
		}
		e.now = late.Add(-time.Minute)
	}
	for _, by := range []string{"token", "proxy", "session", "share", ""} {
		if _, _, err := e.sessions.NewLink(visit(), site.Reader{By: by, User: "alice", Operator: true}, "jobs"); !errors.Is(err, ErrRefused) {
			t.Errorf("a link for a reader by %q: %v", by, err)
		}
	}
}

// In the browser of one user the link of another one changes nothing, and is not valid after it.
func TestALinkOfAnotherUser(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	bob, link := e.mustEnter(t, "bob"), e.link(t, "mallory")
	_, set, err := e.enter(link, bob)
	if !errors.Is(err, ErrRefused) || set != nil || !strings.Contains(err.Error(), "you are bob") {
		t.Errorf("%v, %v", set, err)
	}
	if got := e.user(t, bob); got != "bob" {
		t.Errorf("the browser of bob is of %q", got)
	}
	if _, _, err := e.enter(link); !errors.Is(err, ErrRefused) {
		t.Errorf("the link after it: %v", err)
	}
}

// A cookie from before the login is not the cookie of the session, and an earlier session of the same user ends.
func TestFixation(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	before := &http.Cookie{Name: sessionCookie, Value: newSecret()}
	_, first, err := e.enter(e.link(t, "alice"), before)
	if err != nil || first == nil || first.Value == before.Value {
		t.Fatalf("%v, %v", first, err)
	}
	_, second, err := e.enter(e.link(t, "alice"), first)
	if err != nil || second == nil || second.Value == first.Value {
		t.Fatalf("%v, %v", second, err)
	}
	for name, c := range map[string]struct {
		cookie *http.Cookie
		want   string
	}{"before the login": {before, ""}, "of the first login": {first, ""}, "of the second login": {second, "alice"}} {
		if got := e.user(t, c.cookie); got != c.want {
			t.Errorf("the cookie %s is of %q", name, got)
		}
	}
}

func TestTheEndOfASession(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	alice, other, bob := e.mustEnter(t, "alice"), e.mustEnter(t, "alice"), e.mustEnter(t, "bob")
	w := httptest.NewRecorder()
	if err := e.sessions.End(w, visit(alice)); err != nil {
		t.Fatal(err)
	}
	if set := w.Result().Cookies(); len(set) != 1 || set[0].MaxAge >= 0 || set[0].Value != "" {
		t.Errorf("logout sets %v", set)
	}
	if e.user(t, alice) != "" || e.user(t, other) != "alice" {
		t.Error("logout ends another session, or not its own")
	}
	if err := e.sessions.End(httptest.NewRecorder(), visit(alice)); err != nil {
		t.Errorf("logout twice: %v", err)
	}
	if n, err := e.store.Revoke(t.Context(), "alice", ""); n != 1 || err != nil {
		t.Errorf("%d revoked, %v", n, err)
	}
	if e.user(t, other) != "" || e.user(t, bob) != "bob" {
		t.Error("a cookie is valid after its revocation, or another one is not")
	}
	for name, value := range map[string]string{"forged": newSecret(), "empty": "", "a link": e.link(t, "bob"), "longer": bob.Value + "x", "a hash": fmt.Sprintf("%x", site.HashToken(bob.Value))} {
		if got := e.user(t, &http.Cookie{Name: sessionCookie, Value: value}); got != "" {
			t.Errorf("the cookie %s is of %q", name, got)
		}
	}
}

// The cookie is for TLS alone where browsers use TLS, and for the directory of the site.
func TestCookies(t *testing.T) {
	for _, c := range []struct {
		url        string
		isTLS      bool
		name, path string
		isSecure   bool
	}{
		{"", false, "rt-session", "/", false}, {"", true, "__Host-rt-session", "/", true},
		{"http://rt.example.org", false, "rt-session", "/", false}, {"https://rt.example.org", false, "__Host-rt-session", "/", true},
		{"https://rt.example.org/jobs", false, "__Secure-rt-session", "/jobs/", true}, {"https://rt.example.org/jobs/", false, "__Secure-rt-session", "/jobs/", true},
	} {
		e := newEntrance(t, SessionConfig{URL: c.url})
		w, r := httptest.NewRecorder(), visit()
		if c.isTLS {
			r.TLS = &tls.ConnectionState{}
		}
		_, err := e.sessions.Enter(w, r, e.link(t, "alice"))
		set := w.Result().Cookies()
		if err != nil || len(set) != 1 {
			t.Fatalf("%v, %v", set, err)
		}
		got := set[0]
		if got.Name != c.name || got.Path != c.path || got.Secure != c.isSecure || !got.HttpOnly {
			t.Errorf("%q, TLS %t: %v", c.url, c.isTLS, got)
		}
	}
	for _, wrong := range []string{"https://", "://", "https:///path"} {
		if _, err := NewSessions(SessionConfig{URL: wrong}); err == nil {
			t.Errorf("serve.url %q is accepted", wrong)
		}
	}
}

// The last use of a session is stored every ten minutes.
func TestTheLastUse(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	c, begin := e.mustEnter(t, "alice"), e.now
	for _, step := range []struct{ after, want time.Duration }{{time.Minute, time.Minute}, {5 * time.Minute, time.Minute}, {12 * time.Minute, 12 * time.Minute}} {
		e.now = begin.Add(step.after)
		e.user(t, c)
		list, err := e.store.List(t.Context(), "alice", e.now)
		if err != nil || len(list) != 1 || !list[0].Used.Or(begin).Equal(begin.Add(step.want)) || list[0].Address != "192.0.2.1" {
			t.Errorf("after %v: %+v, %v", step.after, list, err)
		}
	}
}

// A proxy and a header Authorization come before the cookie.
func TestACookieIsTheLastProof(t *testing.T) {
	e := newEntrance(t, SessionConfig{})
	c := e.mustEnter(t, "alice")
	r := visit(c)
	r.Header.Set("Authorization", "Bearer wrong")
	if reader, err := e.readers.Reader(r); !errors.Is(err, site.ErrUnknownReader) {
		t.Errorf("with a wrong token: %+v, %v", reader, err)
	}
}
