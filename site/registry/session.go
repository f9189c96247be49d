package registry

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/resource-tracker/rt/site"
)

// maxSessions is how many sessions, links and shares a user may have at a time.
const maxSessions = 500

// Sessions has the sessions of browsers, the links that begin them, and the links that share a job. A method with a time
// does not see what has expired at that time.
type Sessions struct{ db *database }

const sessionColumns = "id, kind, username, target, address, created, expires, used"

func scanSession(scan scanFunc) (s site.Session, err error) {
	var created, expires, used int64
	err = scan(&s.ID, &s.Kind, &s.User, &s.Target, &s.Address, &created, &expires, &used)
	s.Created, s.Expires = moment(created), moment(expires)
	if used > 0 {
		s.Used.Set(moment(used))
	}
	return s, err
}

// Add stores a session with the hash of its secret. The error is site.ErrTooManySessions if its user may have no more.
func (r *Sessions) Add(ctx context.Context, s site.Session, secret site.TokenHash) error {
	return r.db.change(ctx, "store a session", func(tx transaction) error {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM session WHERE username = $1 AND expires > $2", s.User, micros(s.Created)).Scan(&n)
		if err == nil && n >= maxSessions {
			err = site.ErrTooManySessions
		}
		if err != nil {
			return err
		}
		return execute(ctx, tx, "INSERT INTO session ("+sessionColumns+", hash) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)",
			s.ID, string(s.Kind), s.User, column(s.Target), column(s.Address), micros(s.Created), micros(s.Expires), hex.EncodeToString(secret[:]))
	})
}

// hasSecret selects the session of a kind and a secret.
const hasSecret = " WHERE hash = $1 AND kind = $2 AND expires > $3"

// Find returns the session of a secret. The error is site.ErrNotFound if there is none.
func (r *Sessions) Find(ctx context.Context, kind site.SessionKind, secret site.TokenHash, now time.Time) (site.Session, error) {
	row := r.db.read.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM session"+hasSecret, hex.EncodeToString(secret[:]), string(kind), micros(now))
	s, err := scanSession(row.Scan)
	return s, r.db.fault(notFound(err))
}

// Take removes the session of a secret and returns it. Of several calls one gets it, the others site.ErrNotFound.
func (r *Sessions) Take(ctx context.Context, kind site.SessionKind, secret site.TokenHash, now time.Time) (s site.Session, err error) {
	if _, err := r.Find(ctx, kind, secret, now); err != nil { // a wrong secret changes nothing
		return s, err
	}
	err = r.db.change(ctx, "end a session", func(tx transaction) (err error) {
		row := tx.QueryRowContext(ctx, "DELETE FROM session"+hasSecret+" RETURNING "+sessionColumns, hex.EncodeToString(secret[:]), string(kind), micros(now))
		s, err = scanSession(row.Scan)
		return notFound(err)
	})
	return s, err
}

// Use stores the time of the last use of a session.
func (r *Sessions) Use(ctx context.Context, id string, now time.Time) error {
	return r.db.execute(ctx, "store the last use of a session", "UPDATE session SET used = $1 WHERE id = $2", micros(now), id)
}

// List returns the sessions of a user, or of all users for an empty name, the oldest first.
func (r *Sessions) List(ctx context.Context, user string, now time.Time) ([]site.Session, error) {
	return list(ctx, r.db, "list the sessions", scanSession,
		"SELECT "+sessionColumns+" FROM session WHERE expires > $1 AND ($2 = '' OR username = $2) ORDER BY created, id", micros(now), user)
}

// Revoke removes the session with an id, or all sessions of a user, or with both the session of this user with this id. It
// returns how many there were.
func (r *Sessions) Revoke(ctx context.Context, user, id string) (n int64, err error) {
	if user == "" && id == "" {
		return 0, errors.New("revoke a session: it needs a user or an id")
	}
	err = r.db.change(ctx, "revoke a session", func(tx transaction) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM session WHERE ($1 = '' OR username = $1) AND ($2 = '' OR id = $2)", user, id)
		if err == nil {
			n, err = done.RowsAffected()
		}
		return err
	})
	return n, err
}

// RevokeAll removes the sessions of all users.
func (r *Sessions) RevokeAll(ctx context.Context) error {
	return r.db.execute(ctx, "revoke all sessions", "DELETE FROM session")
}

// Expire removes the sessions that have expired.
func (r *Sessions) Expire(ctx context.Context, now time.Time) error {
	return r.db.execute(ctx, "remove old sessions", "DELETE FROM session WHERE expires <= $1", micros(now))
}
