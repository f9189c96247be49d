package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

const (
	linkLife    = time.Minute
	sessionLife = 12 * time.Hour
	// useEvery is how late the last use of a session is stored: not with each request.
	useEvery = 10 * time.Minute
)

// ErrRefused is the kind of an error with a text for the person at a browser. It says what to do.
var ErrRefused = errors.New("refused")

func refuse(format string, args ...any) error {
	return errkind.With(ErrRefused, fmt.Errorf(format, args...))
}

// SessionConfig is the configuration of Sessions.
type SessionConfig struct {
	Store     *registry.Sessions
	Key       []byte        // signs the links that share a job
	URL       string        // of the site as browsers see it; empty: not known
	ShareLife time.Duration // of a link that shares a job; 0: there are none
	SSO       *SSO          // may be nil
	Now       func() time.Time
}

// Sessions lets browsers in. A link of rt-job, or single sign-on, begins a session, and a cookie has its secret.
type Sessions struct {
	conf SessionConfig
	base *url.URL // nil: not known
}

// NewSessions returns Sessions.
func NewSessions(c SessionConfig) (*Sessions, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Sessions{conf: c}
	if c.URL != "" {
		base, err := url.Parse(c.URL)
		if err != nil || base.Host == "" {
			return nil, fmt.Errorf("serve.url: %q is not a URL", c.URL)
		}
		s.base = base.JoinPath("/") // a base ends with a slash
	}
	return s, nil
}

// Absolute returns the absolute address of a page; the relative one if the address of the site is not known.
func (s *Sessions) Absolute(page string) string {
	if s.base == nil {
		return page
	}
	return s.base.String() + page
}

// newSecret returns 256 random bits.
func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// seal returns what only the holder of a key can compute of a text.
func seal(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// newSession returns a session that begins now.
func (s *Sessions) newSession(r *http.Request, kind site.SessionKind, user string, life time.Duration) site.Session {
	id, now := make([]byte, 8), s.conf.Now().UTC()
	rand.Read(id)
	address := r.RemoteAddr
	if at, err := netip.ParseAddrPort(address); err == nil {
		address = at.Addr().Unmap().String()
	}
	return site.Session{ID: hex.EncodeToString(id), Kind: kind, User: user, Address: address, Created: now, Expires: now.Add(life)}
}

// NewLink returns the secret of a link that begins a session of a reader, once and for a minute, and leads to a page. The
// reader must have shown a MUNGE credential: a token has less rights than its user.
func (s *Sessions) NewLink(r *http.Request, reader site.Reader, page string) (secret string, expires time.Time, err error) {
	if reader.By != byMunge {
		return "", expires, refuse("Only a user with a MUNGE credential gets a link into the pages.")
	}
	link := s.newSession(r, site.SessionLink, reader.User, linkLife)
	link.Target, secret = page, newSecret()
	return secret, link.Expires, s.conf.Store.Add(r.Context(), link, site.HashToken(secret))
}

// Enter begins the session of a link, and returns the page to which it leads. A second call with the same secret fails.
func (s *Sessions) Enter(w http.ResponseWriter, r *http.Request, secret string) (page string, err error) {
	link, err := s.conf.Store.Take(r.Context(), site.SessionLink, site.HashToken(secret), s.conf.Now())
	if errors.Is(err, site.ErrNotFound) {
		return "", refuse("This link is not valid any more: it works once, and for a minute. rt-job web makes a new one.")
	}
	if err != nil {
		return "", err
	}
	return link.Target, s.begin(w, r, link.User)
}

// begin begins the session of a user. It ends an earlier one of this browser, so that no secret from before is valid
// after it. A session of another user stays, because the link may be of an attacker.
func (s *Sessions) begin(w http.ResponseWriter, r *http.Request, user string) error {
	before, err := s.current(r)
	switch {
	case err != nil && !errors.Is(err, site.ErrNotFound):
		return err
	case err == nil && before.User != user:
		return refuse("In this browser you are %s, and this would let you in as %s. Log out first, and begin again.", before.User, user)
	case err == nil:
		if _, err := s.conf.Store.Revoke(r.Context(), "", before.ID); err != nil {
			return err
		}
	}
	secret := newSecret()
	session := s.newSession(r, site.SessionBrowser, user, sessionLife)
	if err := s.conf.Store.Add(r.Context(), session, site.HashToken(secret)); err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, sessionCookie, secret, sessionLife))
	return nil
}

// End ends the session of a browser, if it has one.
func (s *Sessions) End(w http.ResponseWriter, r *http.Request) error {
	c, err := r.Cookie(s.cookieName(r, sessionCookie))
	if err != nil {
		return nil
	}
	_, err = s.conf.Store.Take(r.Context(), site.SessionBrowser, site.HashToken(c.Value), s.conf.Now())
	if err != nil && !errors.Is(err, site.ErrNotFound) {
		return err
	}
	http.SetCookie(w, s.cookie(r, sessionCookie, "", -1))
	return nil
}

// current returns the session of a browser, or site.ErrNotFound.
func (s *Sessions) current(r *http.Request) (site.Session, error) {
	c, err := r.Cookie(s.cookieName(r, sessionCookie))
	if err != nil {
		return site.Session{}, site.ErrNotFound
	}
	return s.conf.Store.Find(r.Context(), site.SessionBrowser, site.HashToken(c.Value), s.conf.Now())
}

// use stores that a session or a share was used.
func (s *Sessions) use(ctx context.Context, session site.Session) error {
	now := s.conf.Now()
	if now.Sub(session.Used.Or(time.Time{})) < useEvery {
		return nil
	}
	return s.conf.Store.Use(ctx, session.ID, now)
}

// The cookies, without the prefix that cookieName adds.
const (
	sessionCookie = "rt-session"
	loginCookie   = "rt-login"
)

func (s *Sessions) isSecure(r *http.Request) bool {
	isBehindTLS := s.base != nil && s.base.Scheme == "https"
	return r.TLS != nil || isBehindTLS
}

func (s *Sessions) cookiePath() string {
	if s.base == nil {
		return "/"
	}
	return s.base.Path
}

// cookieName returns the name of a cookie. Browsers accept one with the prefix __Host- from this host alone, and one with
// __Secure- over TLS alone.
func (s *Sessions) cookieName(r *http.Request, name string) string {
	switch {
	case !s.isSecure(r):
		return name
	case s.cookiePath() == "/":
		return "__Host-" + name
	}
	return "__Secure-" + name
}

// cookie returns a cookie; with a negative life it removes one.
func (s *Sessions) cookie(r *http.Request, name, value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: s.cookieName(r, name), Value: value, Path: s.cookiePath(), MaxAge: int(life.Seconds()),
		HttpOnly: true, Secure: s.isSecure(r), SameSite: http.SameSiteLaxMode,
	}
	if life < 0 {
		c.MaxAge = -1
	}
	return c
}
