package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt/site"
)

func TestSessions(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		secret := site.HashToken("secret-of-the-link")
		link := site.Session{ID: "1", Kind: site.SessionLink, User: "alice", Target: "jobs?user=alice", Address: "10.0.0.1", Created: start, Expires: start.Add(time.Minute)}
		is(t, "add", r.Sessions.Add(t.Context(), link, secret), nil)
		for _, c := range []struct {
			kind   site.SessionKind
			secret string
			at     time.Time
			want   error
		}{
			{site.SessionLink, "secret-of-the-link", start.Add(time.Minute - time.Microsecond), nil},
			{site.SessionLink, "secret-of-the-link", start.Add(time.Minute), site.ErrNotFound},
			{site.SessionBrowser, "secret-of-the-link", start, site.ErrNotFound},
			{site.SessionLink, "another", start, site.ErrNotFound}, {site.SessionLink, "", start, site.ErrNotFound},
		} {
			got, err := again().Sessions.Find(t.Context(), c.kind, site.HashToken(c.secret), c.at)
			if !errors.Is(err, c.want) || (c.want == nil && got != link) {
				t.Errorf("%s %q at %v: %+v, %v", c.kind, c.secret, c.at, got, err)
			}
		}
		is(t, "use", r.Sessions.Use(t.Context(), "1", start.Add(time.Second)), nil)
		link.Used.Set(start.Add(time.Second))
		list, err := r.Sessions.List(t.Context(), "alice", start)
		if !slices.Equal(list, []site.Session{link}) || err != nil {
			t.Errorf("list: %+v, %v, want %+v", list, err, link)
		}
		if list, err := r.Sessions.List(t.Context(), "bob", start); err != nil || len(list) > 0 {
			t.Errorf("list of another user: %v, %v", list, err)
		}
		if _, err := r.Sessions.Take(t.Context(), site.SessionLink, secret, link.Expires); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("take at the end: %v", err)
		}
		takeTwice(t, []*Registry{r, again()}, secret)
	})
}

// takeTwice takes a link at the same time with several registries: one of them gets it.
func takeTwice(t *testing.T, registries []*Registry, secret site.TokenHash) {
	t.Helper()
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = registries[i%len(registries)].Sessions.Take(t.Context(), site.SessionLink, secret, start)
		})
	}
	all.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
		} else if !errors.Is(err, site.ErrNotFound) {
			t.Errorf("take: %v", err)
		}
	}
	if taken != 1 {
		t.Errorf("the link was taken %d times", taken)
	}
}

func TestSessionsEnd(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		add := func(n int, user string, life time.Duration) error {
			s := site.Session{ID: fmt.Sprint(n), Kind: site.SessionBrowser, User: user, Created: start, Expires: start.Add(life)}
			return r.Sessions.Add(t.Context(), s, site.HashToken(fmt.Sprint("secret", n)))
		}
		ids := func() (out string) {
			list, err := r.Sessions.List(t.Context(), "", start.Add(-time.Hour))
			is(t, "list", err, nil)
			for _, s := range list {
				out += s.ID + " "
			}
			return out
		}
		for n, user := range []string{"alice", "alice", "bob", "bob", "carol"} {
			is(t, "add", add(n, user, time.Duration(n)*time.Hour), nil)
		}
		for _, c := range []struct {
			user, id string
			n        int64
			left     string
		}{
			{"alice", "2", 0, "0 1 2 3 4 "}, {"bob", "2", 1, "0 1 3 4 "}, {"", "x", 0, "0 1 3 4 "}, {"", "3", 1, "0 1 4 "}, {"alice", "", 2, "4 "},
		} {
			n, err := r.Sessions.Revoke(t.Context(), c.user, c.id)
			if got := ids(); err != nil || n != c.n || got != c.left {
				t.Errorf("revoke %q of %q: %d, %v; left %q, want %q", c.id, c.user, n, err, got, c.left)
			}
		}
		if _, err := r.Sessions.Revoke(t.Context(), "", ""); err == nil {
			t.Error("revoke of nothing has no error")
		}
		is(t, "expire", r.Sessions.Expire(t.Context(), start.Add(4*time.Hour)), nil)
		if got := ids(); got != "" {
			t.Errorf("after the end there is %q", got)
		}
		var last error
		for n := range maxSessions + 1 {
			is(t, "before the last one", last, nil)
			last = add(100+n, "alice", time.Hour)
		}
		if !errors.Is(last, site.ErrTooManySessions) {
			t.Errorf("session %d of a user: %v", maxSessions+1, last)
		}
		is(t, "of another user", add(1, "bob", time.Hour), nil)
	})
}

// The database has no secret.
func TestSessionsKeepHashes(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		const secret = "secret-of-a-session"
		s := site.Session{ID: "1", Kind: site.SessionBrowser, User: "alice", Created: start, Expires: start.Add(time.Hour)}
		is(t, "add", r.Sessions.Add(t.Context(), s, site.HashToken(secret)), nil)
		rows, err := r.db.texts(t.Context(), "read", "SELECT id || ' ' || hash || ' ' || kind || ' ' || target || ' ' || address FROM session")
		is(t, "read", err, nil)
		hasSecret := func(row string) bool { return strings.Contains(row, secret) }
		if len(rows) != 1 || slices.ContainsFunc(rows, hasSecret) {
			t.Errorf("the rows are %q", rows)
		}
	})
}
