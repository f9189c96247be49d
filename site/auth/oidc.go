package auth

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/resource-tracker/rt/internal/printable"
)

const (
	// loginLife is how long a login at the provider may take.
	loginLife = 10 * time.Minute
	// providerTime limits each request to the provider.
	providerTime = 10 * time.Second
)

// ErrProvider means that the provider of single sign-on gave no answer.
var ErrProvider = errors.New("the provider of single sign-on gives no answer (serve.oidc_issuer)")

// SSOConfig is the configuration of an OpenID Connect provider.
type SSOConfig struct {
	Issuer       string
	ClientID     string
	ClientSecret string   // empty: a public client
	Claim        string   // of the ID token, with the name of the user
	Scopes       []string // in addition to openid
}

// SSO is the single sign-on of a site, by OpenID Connect. It asks the provider at the first login, so that the service
// starts without it.
type SSO struct {
	conf     SSOConfig
	client   *http.Client
	provider atomic.Pointer[oidc.Provider] // nil: it has not answered yet
}

// NewSSO returns the single sign-on of a provider.
func NewSSO(c SSOConfig) *SSO {
	return &SSO{conf: c, client: &http.Client{Timeout: providerTime}}
}

// discover returns the provider. No login waits for another one, which can have no answer.
func (o *SSO) discover(ctx context.Context) (*oidc.Provider, error) {
	if p := o.provider.Load(); p != nil {
		return p, nil
	}
	p, err := oidc.NewProvider(ctx, o.conf.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProvider, err)
	}
	o.provider.Store(p)
	return p, nil
}

// login is a login that has begun. All of its values are of one secret, which is in a cookie of the browser alone.
type login struct{ secret, page string }

func (l login) state() string    { return seal([]byte(l.secret), "state") }
func (l login) nonce() string    { return seal([]byte(l.secret), "nonce") }
func (l login) verifier() string { return seal([]byte(l.secret), "verifier") }

// value is the value of the cookie.
func (l login) value() string {
	return l.secret + "." + base64.RawURLEncoding.EncodeToString([]byte(l.page))
}

// loginOf returns the login of a browser.
func (s *Sessions) loginOf(r *http.Request) (l login, ok bool) {
	c, err := r.Cookie(s.cookieName(r, loginCookie))
	if err != nil {
		return l, false
	}
	secret, page, _ := strings.Cut(c.Value, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(page)
	return login{secret, string(decoded)}, err == nil && len(secret) == len(newSecret())
}

// HasSSO reports whether there is a single sign-on.
func (s *Sessions) HasSSO() bool { return s.conf.SSO != nil }

func (s *Sessions) oauth(p *oidc.Provider) *oauth2.Config {
	c := s.conf.SSO.conf
	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: s.Absolute("callback"),
		Scopes: append([]string{oidc.ScopeOpenID}, c.Scopes...),
	}
}

// BeginLogin returns the address of the provider at which a browser logs in. The login then leads to a page.
func (s *Sessions) BeginLogin(w http.ResponseWriter, r *http.Request, page string) (address string, err error) {
	o := s.conf.SSO
	p, err := o.discover(oidc.ClientContext(r.Context(), o.client))
	if err != nil {
		return "", err
	}
	l := login{newSecret(), page}
	http.SetCookie(w, s.cookie(r, loginCookie, l.value(), loginLife))
	return s.oauth(p).AuthCodeURL(l.state(), oidc.Nonce(l.nonce()), oauth2.S256ChallengeOption(l.verifier())), nil
}

// EndLogin begins the session of a browser that the provider has sent back, and returns the page to which the login leads.
func (s *Sessions) EndLogin(w http.ResponseWriter, r *http.Request) (page string, err error) {
	l, ok := s.loginOf(r)
	if !ok {
		return "", refuse("This login did not begin in this browser, or it took more than 10 minutes. Begin it again.")
	}
	http.SetCookie(w, s.cookie(r, loginCookie, "", -1))
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(l.state())) != 1 {
		return "", refuse("This login belongs to another one (state). Begin it again.")
	}
	if text := q.Get("error"); text != "" {
		return "", refuse("The login service has not let you in: %s. Begin it again.", printable.Text(text))
	}
	user, err := s.userOf(r, l, q.Get("code"))
	if err != nil {
		return "", err
	}
	return l.page, s.begin(w, r, user)
}

// userOf gets the ID token of a login from the provider, and returns the name of the user in it.
func (s *Sessions) userOf(r *http.Request, l login, code string) (string, error) {
	o := s.conf.SSO
	ctx := oidc.ClientContext(r.Context(), o.client)
	p, err := o.discover(ctx)
	if err != nil {
		return "", err
	}
	token, err := s.oauth(p).Exchange(ctx, code, oauth2.VerifierOption(l.verifier()))
	refusal, isAnswer := errors.AsType[*oauth2.RetrieveError](err)
	if isAnswer && refusal.ErrorCode != "" {
		return "", refuse("The login service does not accept this login: %s. Begin it again.", printable.Text(refusal.ErrorCode))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrProvider, err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := p.Verifier(&oidc.Config{ClientID: o.conf.ClientID, Now: s.conf.Now}).Verify(ctx, raw)
	if err != nil {
		return "", refuse("The answer of the login service is not valid: %w.", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.nonce())) != 1 {
		return "", refuse("The answer of the login service is for another login (nonce). Begin it again.")
	}
	return o.nameOf(id)
}

// nameOf returns the name of the user in an ID token.
func (o *SSO) nameOf(id *oidc.IDToken) (string, error) {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return "", refuse("The answer of the login service is not valid: %w.", err)
	}
	name, _ := claims[o.conf.Claim].(string)
	isUnproved := o.conf.Claim == "email" && claims["email_verified"] != true
	if isUnproved || !isName(name) {
		return "", refuse("The login service does not name your account on the cluster. Show this to the administrators of the site: claim %s (serve.oidc_claim).", o.conf.Claim)
	}
	return name, nil
}
