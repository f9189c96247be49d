package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// defaultConns is the default of Options.Conns. PostgreSQL allows 100 by default, for all
// receivers together.
const defaultConns = 24

// attempts is how often a transaction is tried that conflicts with another one.
const attempts = 5

// postgresWriter makes each change in a transaction of its own.
type postgresWriter struct{ db *sql.DB }

func openPostgres(ctx context.Context, dsn string, o Options) (*Registry, error) {
	conf, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
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
	if o.Conns == 0 {
		o.Conns = defaultConns
	}
	db.SetMaxOpenConns(o.Conns)
	db.SetMaxIdleConns(o.Conns)
	// Receivers that start at the same time migrate one after the other.
	locker, err := lock.NewPostgresSessionLocker()
	if err == nil {
		err = migrate(ctx, goose.DialectPostgres, db, goose.WithSessionLocker(locker))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Registry{db: db, writer: &postgresWriter{db}, options: o}, nil
}

func (w *postgresWriter) lock() string      { return " FOR UPDATE" }
func (w *postgresWriter) shards() uint32    { return 64 }
func (w *postgresWriter) integrity() string { return "" }  // pg_amcheck(1) is the tool for it
func (w *postgresWriter) close() error      { return nil } // the registry closes db

func (w *postgresWriter) change(ctx context.Context, f func(transaction) error) error {
	for attempt := 1; ; attempt++ {
		err := w.try(ctx, f)
		isLast := attempt == attempts || !isConflict(err)
		if isLast {
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
		return errors.Join(err, rolledBack(tx.Rollback()))
	}
	return tx.Commit()
}

// rolledBack returns an error of a rollback. If the connection is lost, PostgreSQL rolls back by itself.
func rolledBack(err error) error {
	if err == nil || errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return fmt.Errorf("roll back: %w", err)
}

// isConflict reports whether PostgreSQL has rolled back a transaction because of another one.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	return e.Code == pgSerializationFailure || e.Code == pgDeadlock
}
