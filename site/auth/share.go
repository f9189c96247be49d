package auth

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// CanShare reports whether a reader may share jobs: the link has the rights of its user.
func (s *Sessions) CanShare(reader site.Reader) bool {
	return s != nil && s.conf.ShareLife > 0 && reader.User != "" && reader.By != byShare
}

// NewShare returns the secret of a link that shows the page of one job to everyone who has it.
func (s *Sessions) NewShare(r *http.Request, reader site.Reader, page string) (secret string, expires time.Time, err error) {
	switch {
	case s.conf.ShareLife <= 0:
		return "", expires, refuse("This site has no links that share a job (serve.share_life).")
	case !s.CanShare(reader):
		return "", expires, refuse("Only a user can share a job, and this token has none.")
	}
	share := s.newSession(r, site.SessionShare, reader.User, s.conf.ShareLife)
	share.Target = page
	secret = s.signShare(newSecret() + "." + strconv.FormatInt(share.Expires.Unix(), 10))
	return secret, share.Expires, s.conf.Store.Add(r.Context(), share, site.HashToken(secret))
}

// signShare adds a signature to the random part and the end of a share.
func (s *Sessions) signShare(claim string) string {
	return claim + "." + seal(s.conf.Key, "share|"+claim)
}

// shared returns the share of a secret.
func (s *Sessions) shared(r *http.Request, secret string) (share site.Session, err error) {
	gone := refuse("This link has expired or was revoked. Ask the user who sent it for a new one.")
	random, rest, _ := strings.Cut(secret, ".")
	end, _, _ := strings.Cut(rest, ".")
	until, err := strconv.ParseInt(end, 10, 64)
	isSigned := err == nil && hmac.Equal([]byte(secret), []byte(s.signShare(random+"."+end)))
	if !isSigned || s.conf.Now().Unix() >= until {
		return share, gone
	}
	share, err = s.conf.Store.Find(r.Context(), site.SessionShare, site.HashToken(secret), s.conf.Now())
	if errors.Is(err, site.ErrNotFound) {
		return share, gone
	}
	if err != nil {
		return share, err
	}
	return share, s.use(r.Context(), share)
}

// SharesOf returns the shares that a user has made.
func (s *Sessions) SharesOf(r *http.Request, user string) (shares []site.Session, err error) {
	all, err := s.conf.Store.List(r.Context(), user, s.conf.Now())
	return slices.DeleteFunc(all, func(one site.Session) bool { return one.Kind != site.SessionShare }), err
}

// Revoke ends a session, link or share of a user.
func (s *Sessions) Revoke(r *http.Request, user, id string) error {
	if user == "" || id == "" {
		return site.ErrNotFound
	}
	_, err := s.conf.Store.Revoke(r.Context(), user, id)
	return err
}

// Shared returns the reader of a request with the secret of a share, and the page that it may see. It has the rights of
// the user who shares, for this page alone.
func (a *Readers) Shared(r *http.Request, secret string) (reader site.Reader, page string, err error) {
	if a.sessions == nil {
		return reader, "", refuse("This site has no links that share a job.")
	}
	share, err := a.sessions.shared(r, secret)
	if err != nil {
		return reader, "", err
	}
	reader, err = a.person(r, byShare, share.User)
	reader.Name = byShare + ":" + share.ID
	return reader, share.Target, err
}
