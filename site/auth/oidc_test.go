package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

const (
	clientID, clientSecret = "rt", "secret-of-the-client"
	siteURL                = "https://rt.example.org/jobs/"
)

// provider is a strict provider of OpenID Connect. It accepts a code once, from its client, with the verifier of the
// challenge.
type provider struct {
	t      *testing.T
	url    string
	key    *ecdsa.PrivateKey
	signer *ecdsa.PrivateKey // nil: key
	asked  url.Values        // of the authorization; nil: there is no code
	claims map[string]any

	isBroken bool // the answer to a code is an error without a reason
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, key: newKey(t)}
	discovery := &oidctest.Server{Algorithms: []string{oidc.ES256}, PublicKeys: []oidctest.PublicKey{{PublicKey: p.key.Public(), KeyID: "1", Algorithm: oidc.ES256}}}
	mux := http.NewServeMux()
	mux.Handle("/", discovery)
	mux.HandleFunc("/token", p.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	discovery.SetIssuer(server.URL)
	return p
}

// authorize is the visit of the browser at the provider. It returns the address to which the provider sends it back.
func (p *provider) authorize(address string) *url.URL {
	p.t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := at.Query()
	isRight := strings.HasPrefix(address, p.url) && q.Get("response_type") == "code" && q.Get("client_id") == clientID && q.Get("redirect_uri") == siteURL+"callback" &&
		q.Get("scope") == "openid profile" && q.Get("code_challenge_method") == "S256" && len(q.Get("state")) == 43 && len(q.Get("nonce")) == 43 && len(q.Get("code_challenge")) == 43
	if !isRight || q.Get("state") == q.Get("nonce") {
		p.t.Fatalf("the address of the login is %s", address)
	}
	p.asked = q
	p.claims = map[string]any{
		"iss": p.url, "aud": clientID, "sub": "1", "nonce": q.Get("nonce"), "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "preferred_username": "alice",
	}
	return &url.URL{Path: "/callback", RawQuery: url.Values{"code": {"code-1"}, "state": {q.Get("state")}}.Encode()}
}

// token answers the exchange of the code.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if p.isBroken {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	id, secret, _ := r.BasicAuth()
	challenge := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	isRight := p.asked != nil && id == clientID && secret == clientSecret && r.FormValue("code") == "code-1" && r.FormValue("redirect_uri") == siteURL+"callback" &&
		base64.RawURLEncoding.EncodeToString(challenge[:]) == p.asked.Get("code_challenge")
	p.asked = nil
	if !isRight {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	text, err := json.Marshal(p.claims)
	if err != nil {
		p.t.Error(err)
	}
	signer := p.key
	if p.signer != nil {
		signer = p.signer
	}
	answer := map[string]string{"access_token": "x", "token_type": "Bearer", "id_token": oidctest.SignIDToken(signer, "1", oidc.ES256, string(text))}
	if p.claims["none"] == true {
		delete(answer, "id_token")
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		p.t.Error(err)
	}
}

// newSSO returns a site with a provider.
func newSSO(t *testing.T, claim string) (*provider, *entrance) {
	t.Helper()
	p := newProvider(t)
	e := newEntrance(t, SessionConfig{URL: siteURL, SSO: NewSSO(SSOConfig{Issuer: p.url, ClientID: clientID, ClientSecret: clientSecret, Claim: claim, Scopes: []string{"profile"}})})
	e.now = time.Now()
	return p, e
}

// begin begins a login. It returns where the provider sends the browser back, and the cookie of the login.
func (e *entrance) begin(t *testing.T, p *provider) (back *url.URL, cookie *http.Cookie) {
	t.Helper()
	w := httptest.NewRecorder()
	address, err := e.sessions.BeginLogin(w, visit(), "job?id=7")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w.Result().Cookies() {
		cookie = c
	}
	if cookie == nil || !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || strings.Contains(address, cookie.Value[:20]) {
		t.Fatalf("the cookie of the login is %v, the address %s", cookie, address)
	}
	return p.authorize(address), cookie
}

// end comes back from the provider. It returns the cookies that are set, apart from removed ones.
func (e *entrance) end(back *url.URL, cookies ...*http.Cookie) (page string, set []*http.Cookie, err error) {
	w, r := httptest.NewRecorder(), visit(cookies...)
	r.URL = back
	page, err = e.sessions.EndLogin(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge > 0 {
			set = append(set, c)
		}
	}
	return page, set, err
}

func TestSingleSignOn(t *testing.T) {
	p, e := newSSO(t, "preferred_username")
	back, cookie := e.begin(t, p)
	page, set, err := e.end(back, cookie)
	if err != nil || page != "job?id=7" || len(set) != 1 {
		t.Fatalf("%q, %v, %v", page, set, err)
	}
	r := visit(set...)
	if reader, err := e.readers.Reader(r); err != nil || reader.User != "alice" || reader.By != "session" {
		t.Errorf("%+v, %v", reader, err)
	}
	if _, set, err := e.end(back, cookie); !errors.Is(err, ErrRefused) || len(set) > 0 {
		t.Errorf("the code twice: %v, %v", set, err)
	}
}

// What a provider or an attacker sends begins no session if one value of it is wrong.
func TestLoginsThatAreRefused(t *testing.T) {
	change := func(name string, value any) func(*provider) { return func(p *provider) { p.claims[name] = value } }
	for name, c := range map[string]struct {
		change func(*provider)
		want   string
	}{
		"another nonce":          {change("nonce", seal([]byte("x"), "nonce")), "another login (nonce)"},
		"no nonce":               {change("nonce", ""), "another login (nonce)"},
		"another audience":       {change("aud", "other"), "is not valid"},
		"no audience":            {change("aud", nil), "is not valid"},
		"another issuer":         {change("iss", "https://evil.example"), "is not valid"},
		"expired":                {change("exp", time.Now().Add(-time.Second).Unix()), "is not valid"},
		"no end":                 {change("exp", nil), "is not valid"},
		"a foreign signature":    {func(p *provider) { p.signer = newKey(p.t) }, "is not valid"},
		"no ID token":            {change("none", true), "is not valid"},
		"no name":                {change("preferred_username", nil), "does not name your account"},
		"an empty name":          {change("preferred_username", ""), "does not name your account"},
		"a name that is none":    {change("preferred_username", "a b"), "does not name your account"},
		"a name that is a list":  {change("preferred_username", []string{"alice"}), "does not name your account"},
		"another challenge":      {func(p *provider) { p.asked.Set("code_challenge", seal([]byte("x"), "")) }, "does not accept this login: invalid_grant"},
		"a code that is used up": {func(p *provider) { p.asked = nil }, "does not accept this login: invalid_grant"},
	} {
		p, e := newSSO(t, "preferred_username")
		back, cookie := e.begin(t, p)
		c.change(p)
		page, set, err := e.end(back, cookie)
		isRefused := errors.Is(err, ErrRefused) && page == "" && len(set) == 0
		if !isRefused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, %v", name, page, set, err)
		}
	}
}

// A login belongs to the browser that has begun it.
func TestLoginsOfAnotherBrowser(t *testing.T) {
	for name, c := range map[string]struct {
		change func(q url.Values, cookie *http.Cookie)
		want   string
	}{
		"another state":    {func(q url.Values, _ *http.Cookie) { q.Set("state", seal([]byte("x"), "state")) }, "(state)"},
		"no state":         {func(q url.Values, _ *http.Cookie) { q.Del("state") }, "(state)"},
		"no cookie":        {func(_ url.Values, c *http.Cookie) { c.Name = "other" }, "did not begin in this browser"},
		"another cookie":   {func(_ url.Values, c *http.Cookie) { c.Value = login{newSecret(), "jobs"}.value() }, "(state)"},
		"a short cookie":   {func(_ url.Values, c *http.Cookie) { c.Value = "x" }, "did not begin in this browser"},
		"a damaged cookie": {func(_ url.Values, c *http.Cookie) { c.Value += "!" }, "did not begin in this browser"},
		"a refusal":        {func(q url.Values, _ *http.Cookie) { q.Set("error", "access_denied") }, "has not let you in: access_denied"},
		"a refusal, no state": {func(q url.Values, _ *http.Cookie) {
			q.Set("error", "<b>")
			q.Del("state")
		}, "(state)"},
	} {
		p, e := newSSO(t, "preferred_username")
		back, cookie := e.begin(t, p)
		q := maps.Clone(back.Query())
		c.change(q, cookie)
		back.RawQuery = q.Encode()
		page, set, err := e.end(back, cookie)
		isRefused := errors.Is(err, ErrRefused) && page == "" && len(set) == 0 && strings.Contains(err.Error(), c.want)
		if !isRefused {
			t.Errorf("%s: %q, %v, %v", name, page, set, err)
		}
		if wasAsked := p.asked == nil; wasAsked {
			t.Errorf("%s: the code was sent to the provider", name)
		}
	}
}

// An address of mail counts if the provider has verified it.
func TestTheClaimEmail(t *testing.T) {
	for _, isVerified := range []any{true, false, nil, "true"} {
		p, e := newSSO(t, "email")
		back, cookie := e.begin(t, p)
		p.claims["email"], p.claims["email_verified"] = "alice@example.org", isVerified
		_, set, err := e.end(back, cookie)
		if isIn := err == nil && len(set) == 1; isIn != (isVerified == true) {
			t.Errorf("verified %v: %v, %v", isVerified, set, err)
		}
	}
}

// A provider that hangs keeps only the login waiting that asks it.
func TestAProviderThatHangs(t *testing.T) {
	asked, end := make(chan bool, 2), make(chan bool)
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- true
		<-end
	}))
	t.Cleanup(hanging.Close)
	e := newEntrance(t, SessionConfig{URL: siteURL, SSO: NewSSO(SSOConfig{Issuer: hanging.URL, ClientID: clientID})})
	e.sessions.conf.SSO.client.Timeout = 0 // a login that waits for another one waits for ever
	failed := make(chan error)
	for range 2 {
		go func() {
			_, err := e.sessions.BeginLogin(httptest.NewRecorder(), visit(), "jobs")
			failed <- err
		}()
	}
	for range 2 {
		<-asked // at the same time
	}
	close(end)
	for range 2 {
		if err := <-failed; !errors.Is(err, ErrProvider) {
			t.Error(err)
		}
	}
}

// The service starts without the provider, and asks it again.
func TestAProviderThatIsAway(t *testing.T) {
	p, e := newSSO(t, "preferred_username")
	issuer := e.sessions.conf.SSO.conf.Issuer
	e.sessions.conf.SSO.conf.Issuer = "http://127.0.0.1:1" // nothing listens on port 1
	if _, err := e.sessions.BeginLogin(httptest.NewRecorder(), visit(), "jobs"); !errors.Is(err, ErrProvider) {
		t.Errorf("%v", err)
	}
	e.sessions.conf.SSO.conf.Issuer = issuer
	back, cookie := e.begin(t, p)
	p.isBroken = true
	if _, set, err := e.end(back, cookie); !errors.Is(err, ErrProvider) || len(set) > 0 {
		t.Errorf("%v, %v", set, err)
	}
	p.isBroken = false
	if _, _, err := e.end(back, cookie); err != nil {
		t.Error(err)
	}
}
