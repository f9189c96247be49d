package registry

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// defaultConns is the default of Config.Conns. PostgreSQL allows 100 by default, for all
// receivers together.
const defaultConns = 24

// attempts is how often a transaction is tried that conflicts with another one. The pauses in between
// are at most 10, 20, 40 and 80 ms.
const (
	attempts = 5
	pause    = 5 * time.Millisecond
)

// ErrDSN means that the URL of the database must be changed.
var ErrDSN = errors.New("the database is not given as postgres://USER@HOST:PORT/NAME")

// postgresWriter makes each change in a transaction of its own. So that no two wait for each other,
// a transaction changes one run. It locks first the run's row, then the counters of the quotas,
// then the row of the job.
type postgresWriter struct {
	db   *sql.DB
	conf *pgx.ConnConfig
}

func openPostgres(ctx context.Context, dsn string, c Config) (*Registry, error) {
	conf, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, badDSN(dsn, err)
	}
	for name, value := range map[string]string{
		"synchronous_commit":            "on", // what was answered is durable
		"default_transaction_isolation": "read committed",
		"jit":                           "off", // it takes longer than the queries
	} {
		if conf.RuntimeParams[name] == "" {
			conf.RuntimeParams[name] = value
		}
	}
	db := stdlib.OpenDB(*conf)
	conns := cmp.Or(c.Conns, defaultConns)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	// Receivers that start at the same time migrate one after the other.
	locker, err := lock.NewPostgresSessionLocker()
	if err == nil {
		err = migrate(ctx, goose.DialectPostgres, db, c, goose.WithSessionLocker(locker))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// pg_amcheck(1) looks for damage, and VACUUM removes old versions of rows.
	return newRegistry(db, &postgresWriter{db, conf}, dialect{lock: " FOR UPDATE", batch: 1, shards: 64}, c), nil
}

// badDSN returns the error of a URL without a part of it that may be a secret.
func badDSN(dsn string, err error) error {
	const advice = `write other characters of a password than letters and digits as %XX, or set PGPASSWORD`
	u, bad := url.Parse(dsn)
	if bad != nil { // the text of the error has parts of the password
		return fmt.Errorf("%w: it is not a URL; %s", ErrDSN, advice)
	}
	password, _ := u.User.Password()
	reason := ""
	if cause := errors.Unwrap(err); cause != nil {
		reason = cause.Error()
	}
	for _, secret := range append(u.Query()["password"], append(u.Query()["sslpassword"], password)...) {
		if secret != "" && strings.Contains(reason, secret) {
			reason = ""
		}
	}
	if reason == "" {
		return fmt.Errorf("%w: a part of it is wrong; %s", ErrDSN, advice)
	}
	return fmt.Errorf("%w: %s", ErrDSN, reason)
}

func (w *postgresWriter) close() error { return nil } // the registry closes db

func (w *postgresWriter) change(ctx context.Context, f func(transaction) error) error {
	for attempt := 1; ; attempt++ {
		err := w.try(ctx, f)
		isLast := attempt == attempts || !isConflict(err)
		if isLast {
			return err
		}
		// At random, so that the same transactions do not conflict again.
		if !recovery.Pause(ctx, rand.N(pause<<attempt)) {
			return err
		}
	}
}

func (w *postgresWriter) try(ctx context.Context, f func(transaction) error) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := call(f, tx); err != nil {
		_ = tx.Rollback() // the driver closes a connection that cannot roll back
		return err
	}
	return commitError(tx.Commit())
}

// commitError marks the error of a COMMIT with site.ErrUnclear if the transaction may be durable. It is not after an
// ERROR of COMMIT itself, such as one of a deferred constraint. A FATAL one can come when the transaction is durable, for
// example while COMMIT waits for a standby.
func commitError(err error) error {
	refused, isRefused := errors.AsType[*pgconn.PgError](err)
	isError := isRefused && refused.SeverityUnlocalized == "ERROR"
	if err == nil || isError || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	return fmt.Errorf("%w: %w", site.ErrUnclear, err)
}

// isConflict reports whether PostgreSQL has rolled back a transaction because of another one.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	return e.Code == pgSerializationFailure || e.Code == pgDeadlock
}
