package site

import (
	"errors"
	"time"

	"github.com/resource-tracker/rt"
)

// Session lets a browser in. The registry has only the hash of its secret.
type Session struct {
	ID      string            `json:"id"` // names it in lists; it is no secret
	Kind    SessionKind       `json:"kind"`
	User    string            `json:"user"`    // whom it lets in; of a share, whose rights it has
	Target  string            `json:"page"`    // of a link, the page to which it leads; of a share, the page that it shows
	Address string            `json:"address"` // of the client for which it was made
	Created time.Time         `json:"created"`
	Expires time.Time         `json:"expires"`
	Used    rt.Opt[time.Time] `json:"last_use"` // some minutes late
}

// SessionKind is what the secret of a Session is for.
type SessionKind string

// The kinds of sessions.
const (
	SessionLink    SessionKind = "link"    // begins a session, once
	SessionBrowser SessionKind = "session" // is in a cookie
	SessionShare   SessionKind = "share"   // shows one job, without an account
)

// ErrTooManySessions means that a user has as many sessions and links as a user may have.
var ErrTooManySessions = errors.New("this user has too many sessions and links: rt-site sessions lists and revokes them")
