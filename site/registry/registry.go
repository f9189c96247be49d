// Package registry stores the runs of a site, their small objects and the jobs that they form in
// a database: a SQLite file, or PostgreSQL. A change is durable when its method returns nil.
// If a method returns one of the errors of package site, except site.ErrUnclear, nothing was changed. After
// another error the change may have been made, for example if the connection was lost during the commit.
package registry

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/resource-tracker/rt/site"
)

// MaxObjects is the largest number of objects of a run.
const MaxObjects = 32768

// Options are the limits of a registry. The zero value has none.
type Options struct {
	Quota      int64 // bytes of all runs; 0: no limit
	OwnerQuota int64 // bytes of the runs of one owner; 0: no limit
	Conns      int   // most connections to PostgreSQL; 0: 24
	// Pseudonym is the name under which nodes with the key of the site deliver the runs of a user; may be nil. Users
	// see these runs too.
	Pseudonym func(user string) string
	// Failed receives the kind of each error of the database: away, full, damaged or other; may be nil.
	Failed func(kind string)
	// Existing refuses a database without the tables of this version, instead of creating or migrating them.
	Existing bool
}

// Registry is the open database. Its methods may be called from several goroutines.
type Registry struct {
	db      *sql.DB // for reading
	writer  writer
	options Options
	windows windows
}

// writer makes the changes of a database.
type writer interface {
	// change calls f in a transaction. It returns nil after the transaction is durable.
	// f may be called again after a conflict.
	change(ctx context.Context, f func(transaction) error) error
	// lock is what follows a SELECT of the row that a change begins with.
	lock() string
	// integrity is a query of the problems of the database file; empty if there is none.
	integrity() string
	// batch is the largest number of runs that one transaction removes.
	batch() int
	// shards is the number of rows that share the counter of an owner.
	shards() uint32
	// broken returns a channel that is closed when no more changes are possible, and then the reason.
	broken() (<-chan struct{}, func() error)
	// wipe is a query that moves the log of a database file into it and empties the log; empty if there is none.
	wipe() string
	// exclusive takes the lock of LockLake.
	exclusive(ctx context.Context) (check func(context.Context) error, release func() error, err error)
	close() error
}

// transaction is what a change may use: an *sql.Tx, or the prepared statements of SQLite.
type transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ErrSchema means that another version of rt-site made the tables of the database.
var ErrSchema = errors.New("the tables of the database are of another version of rt-site")

// Open opens the registry in a SQLite file, or in PostgreSQL if dsn begins with postgres:// or
// postgresql://. It creates or migrates the tables, see Options.Existing. Several registries may be
// open in one PostgreSQL database.
func Open(ctx context.Context, dsn string, o Options) (*Registry, error) {
	open := openSQLite
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		open = openPostgres
	}
	r, err := open(ctx, dsn, o)
	if err != nil {
		return nil, fmt.Errorf("open the registry: %w", fault(err))
	}
	r.windows = defaultWindows
	return r, nil
}

//go:embed migrations
var migrations embed.FS

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, o Options, options ...goose.ProviderOption) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(dialect, db, files, options...)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	newest := sources[len(sources)-1].Version
	if o.Existing {
		return checkSchema(ctx, dialect, db, newest)
	}
	found, err := versionOf(ctx, db)
	isForeign := err == nil && found != 0 && (found < firstVersion || found > newest)
	if isForeign {
		return checkSchema(ctx, dialect, db, newest)
	}
	if _, err := provider.Up(ctx); err != nil {
		return err
	}
	if err := checkSchema(ctx, dialect, db, newest); err != nil {
		return err
	}
	return signSchema(ctx, db)
}

// Close waits for the changes in progress and closes the database.
func (r *Registry) Close() error { return errors.Join(r.writer.close(), r.db.Close()) }

// Wait returns why no more changes are possible: Close was called, or the writer of a SQLite file had an
// internal error. It returns nil when the context ends.
func (r *Registry) Wait(ctx context.Context) error {
	ended, why := r.writer.broken()
	select {
	case <-ended:
		return why()
	case <-ctx.Done():
		return nil
	}
}

// change makes a change; what names it in an error.
func (r *Registry) change(ctx context.Context, what string, f func(transaction) error) error {
	if err := r.writer.change(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", what, r.fault(err))
	}
	return nil
}

// Secret returns the random secret of this name. The first call creates it; every registry of
// the same database has the same secret.
func (r *Registry) Secret(ctx context.Context, name string, bytes int) ([]byte, error) {
	what := "read secret " + name
	value, err := r.secret(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		fresh := make([]byte, bytes)
		rand.Read(fresh)
		err = r.change(ctx, "create secret "+name, func(tx transaction) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, fresh)
			return err
		})
		if err != nil {
			return nil, err
		}
		value, err = r.secret(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, r.fault(err))
	}
	if len(value) != bytes {
		return nil, fmt.Errorf("%s: it has %d bytes, not %d", what, len(value), bytes)
	}
	return value, nil
}

func (r *Registry) secret(ctx context.Context, name string) (value []byte, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", name).Scan(&value)
	return value, err
}

// notFound replaces the error of a query without a row.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return site.ErrNotFound
	}
	return err
}
