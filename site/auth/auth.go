// Package auth finds out who sends a request for runs, and what the sender may see. It uses a MUNGE
// credential, a proxy that names the user, or a read token. If none of them is configured, there
// are no readers.
package auth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/resource-tracker/rt/site"
)

// Config says who may read.
type Config struct {
	Munge *Munge // decodes credentials; nil: MUNGE is off

	ProxyHeader string   // header with the name of the user; empty: no proxy is accepted
	ProxyFrom   []string // where the proxy is: addresses, networks such as 10.0.0.0/24, or "unix"

	Operators    []string     // users, and groups with a @, that see all runs
	Coordinators Coordinators // of accounts; may be nil
}

// Readers identifies readers. It is safe for concurrent use.
type Readers struct {
	munge     *Munge
	proxy     *proxy
	operators operators
	accounts  Coordinators
	tokens    atomic.Pointer[[]Token]
	sessions  *Sessions // nil: no browser has one
}

// New returns Readers without tokens.
func New(c Config) (*Readers, error) {
	p, err := newProxy(c.ProxyHeader, c.ProxyFrom)
	if err != nil {
		return nil, err
	}
	o, err := newOperators(c.Operators)
	if err != nil {
		return nil, err
	}
	a := &Readers{munge: c.Munge, proxy: p, operators: o, accounts: c.Coordinators}
	a.SetTokens(nil)
	return a, nil
}

// SetTokens replaces the read tokens, from the next request on.
func (a *Readers) SetTokens(tokens []Token) { a.tokens.Store(&tokens) }

// UseSessions accepts the cookies of sessions. Call it before the first request.
func (a *Readers) UseSessions(s *Sessions) { a.sessions = s }

// Ways are the ways in which a person at a browser can show who it is.
type Ways struct{ Munge, SSO, Tokens bool }

// Ways returns the ways that are configured.
func (a *Readers) Ways() Ways {
	hasSessions := a.sessions != nil
	return Ways{Munge: hasSessions && a.munge != nil, SSO: hasSessions && a.sessions.HasSSO(), Tokens: len(*a.tokens.Load()) > 0}
}

// How a reader was identified.
const (
	byMunge   = "munge"
	byProxy   = "proxy"
	bySession = "session"
	byShare   = "share"
)

// The schemes of the header Authorization.
const (
	schemeMunge  = "MUNGE"
	schemeBearer = "Bearer"
)

// Challenges are the values of WWW-Authenticate for a request without a reader.
func (a *Readers) Challenges() []string {
	challenges := []string{schemeBearer}
	if a.munge != nil {
		challenges = append(challenges, schemeMunge)
	}
	return challenges
}

// Reader returns who sends a request. The errors are site.ErrUnknownReader if the request does not show
// it, site.ErrNoReader if it does, and the sender may not read, and site.ErrBusy. After another error
// the reader is not known, because the service cannot find out.
func (a *Readers) Reader(r *http.Request) (site.Reader, error) {
	user, isProxy, err := a.proxy.user(r)
	if err != nil {
		return site.Reader{}, err
	}
	if isProxy {
		return a.person(r, byProxy, user)
	}
	fields := r.Header.Values("Authorization")
	if len(fields) == 0 && a.sessions != nil {
		return a.ofSession(r)
	}
	if len(fields) != 1 {
		return site.Reader{}, errNoProof
	}
	scheme, credential, _ := strings.Cut(fields[0], " ")
	credential = strings.TrimSpace(credential)
	isMunge := strings.EqualFold(scheme, schemeMunge) && a.munge != nil
	switch {
	case isMunge:
		user, err := a.munge.user(r, credential)
		if err != nil {
			return site.Reader{}, err
		}
		return a.person(r, byMunge, user)
	case strings.EqualFold(scheme, schemeBearer):
		return readerOf(*a.tokens.Load(), credential)
	case strings.EqualFold(scheme, schemeMunge):
		return site.Reader{}, fmt.Errorf("%w: this service does not accept MUNGE (serve.munge)", site.ErrUnknownReader)
	}
	return site.Reader{}, fmt.Errorf("%w: the header Authorization has another scheme than MUNGE and Bearer", site.ErrUnknownReader)
}

var errNoProof = fmt.Errorf("%w: send one header Authorization with Bearer and a read token, or with MUNGE", site.ErrUnknownReader)

// ofSession returns the reader of a request with the cookie of a session.
func (a *Readers) ofSession(r *http.Request) (site.Reader, error) {
	session, err := a.sessions.current(r)
	if errors.Is(err, site.ErrNotFound) {
		return site.Reader{}, errNoProof
	}
	if err == nil {
		err = a.sessions.use(r.Context(), session)
	}
	if err != nil {
		return site.Reader{}, err
	}
	return a.person(r, bySession, session.User)
}

// person returns the reader with the name of a user. It fails unless all rights of the reader are
// known: lists without a part of the jobs would look complete.
func (a *Readers) person(r *http.Request, by, user string) (site.Reader, error) {
	if !isName(user) {
		return site.Reader{}, fmt.Errorf("%w: the name of the user is not valid", site.ErrNoReader)
	}
	reader := site.Reader{By: by, Name: by + ":" + user, User: user}
	isOperator, err := a.operators.has(r.Context(), user)
	if err != nil {
		return site.Reader{}, fmt.Errorf("find the groups of user %s (serve.operators): %w", user, err)
	}
	reader.Operator = isOperator
	if a.accounts != nil && !isOperator {
		reader.Accounts, err = a.accounts.AccountsOf(r.Context(), user)
		if err != nil {
			return site.Reader{}, fmt.Errorf("find the accounts that user %s coordinates (serve.coordinators): %w", user, err)
		}
	}
	return reader, nil
}

// nameMax is the length, in bytes, of the longest name that the registry compares as a whole.
const nameMax = 200

// isName reports whether a text can be the name of a user or an account.
func isName(name string) bool {
	isLong := len(name) > nameMax
	isText := utf8.ValidString(name) && strings.IndexFunc(name, isUnfit) < 0
	return name != "" && !isLong && isText
}

func isUnfit(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || c == ',' }

// errTimeout is the result of a lookup that takes too long.
var errTimeout = errors.New("no answer in time")

// lookupTime is how long a lookup of a user or its groups may take. It can be a request to a directory
// service.
const lookupTime = 5 * time.Second
