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
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// MaxObjects is the largest number of objects of a run.
const MaxObjects = 32768

// Config has the limits of a registry. The zero value has none.
type Config struct {
	Quota      int64 // bytes of all runs; 0: no limit
	OwnerQuota int64 // bytes of the runs of one owner; 0: no limit
	Conns      int   // the largest number of connections to PostgreSQL; 0: 24
	// Pseudonym returns the name that nodes with the key of the site send instead of a user. Users also see the runs
	// under their pseudonym. May be nil.
	Pseudonym func(user string) string
	// Failed receives the kind of each error of the database: away, full, damaged or other. May be nil.
	Failed func(kind string)
	// Existing makes Open refuse a database without the tables of this version. Otherwise it creates or migrates them.
	Existing bool
}

// Registry is the open database, in parts by subject. All of their methods may be called from several goroutines.
type Registry struct {
	db       *database
	prices   *report.Prices
	Settings *Settings
	Runs     *Runs
	Objects  *Objects
	Removals *Removals
	Jobs     *Jobs
	Visible  *VisibleRuns
	Nodes    *Nodes
	Live     *Live
	Lake     *LakeRuns
	Sessions *Sessions
}

// newRegistry returns the registry that reads with the connections of read and makes changes with w.
func newRegistry(read *sql.DB, w writer, d dialect, c Config) *Registry {
	db := &database{d, read, w, c.Failed}
	objects := &Objects{db}
	quotas, jobs := quotas{c.Quota, c.OwnerQuota, d.shards}, jobRows{d.lock, &report.Prices{}}
	runs := &Runs{db, quotas, jobs}
	return &Registry{
		db: db, prices: jobs.prices, Settings: &Settings{db}, Runs: runs, Objects: objects, Removals: &Removals{db, runs, quotas, jobs},
		Jobs: &Jobs{db, c.Pseudonym, defaultWindows, jobs.prices}, Visible: &VisibleRuns{db, objects, c.Pseudonym}, Nodes: &Nodes{db}, Live: &Live{db, jobs, runs}, Lake: &LakeRuns{db},
		Sessions: &Sessions{db},
	}
}

// database has the connections. The parts of a registry share it.
type database struct {
	dialect
	read   *sql.DB
	writer writer
	failed func(kind string) // see Config.Failed
}

// writer makes the changes of a database.
type writer interface {
	// change calls f in a transaction. It returns nil after the transaction is durable.
	// f may be called again after a conflict.
	change(ctx context.Context, f func(transaction) error) error
	// another opens the database once more.
	another() (db *sql.DB, isPostgres bool, err error)
	// exclusive takes the lock of LakeRuns.Lock.
	exclusive(ctx context.Context) (check func(context.Context) error, release func() error, err error)
	close() error
}

// dialect is how one kind of database differs from the other.
type dialect struct {
	lock      string // end of a SELECT that locks the selected row until the end of the transaction; empty: no lock is needed
	integrity string // query that lists the damage of the database file; empty: there is none
	wipe      string // query that moves the log of a database file into the file and empties the log; empty: there is none
	batch     int    // the largest number of runs that one transaction changes
	shards    uint32 // number of rows over which the counter of an owner is spread
}

// transaction is what a change may use: an *sql.Tx, or steady.
type transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// ErrSchema means that another version of rt-site made the tables of the database.
var ErrSchema = errors.New("the tables of the database are of another version of rt-site")

// Open opens the registry in a SQLite file, or in PostgreSQL if dsn begins with postgres:// or
// postgresql://. It creates or migrates the tables, see Config.Existing. Several registries may be
// open in one PostgreSQL database.
func Open(ctx context.Context, dsn string, c Config) (*Registry, error) {
	open := openSQLite
	if strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://") {
		open = openPostgres
	}
	r, err := open(ctx, dsn, c)
	if err != nil {
		return nil, fmt.Errorf("open the registry: %w", fault(err))
	}
	if err := r.loadPrices(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the registry: %w", fault(err)), r.Close())
	}
	return r, nil
}

//go:embed migrations
var migrations embed.FS

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, c Config, options ...goose.ProviderOption) error {
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
	if c.Existing {
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

// Settings has the secrets of a site, its claims to the object store, its hold and the table audit.
type Settings struct{ db *database }

// Close closes the database.
func (r *Registry) Close() error { return errors.Join(r.db.writer.close(), r.db.read.Close()) }

// change makes the change f. what names it in an error.
func (d *database) change(ctx context.Context, what string, f func(transaction) error) error {
	if err := d.writer.change(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", what, d.fault(err))
	}
	return nil
}

// changeEach calls change for each of a list, in transactions of as many as the database has runs in one.
func changeEach[T any](ctx context.Context, d *database, what string, list []T, change func(transaction, T) error) error {
	for some := range slices.Chunk(list, d.batch) {
		err := d.change(ctx, what, func(tx transaction) error {
			for _, one := range some {
				if err := change(tx, one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// execute is a change that is one statement. what names it in an error.
func (d *database) execute(ctx context.Context, what, statement string, args ...any) error {
	return d.change(ctx, what, func(tx transaction) error { return execute(ctx, tx, statement, args...) })
}

// execute executes a statement whose result is not needed.
func execute(ctx context.Context, tx transaction, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

// putSetting is the statement that stores a setting in the place of an earlier one.
const putSetting = "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

// Secret returns the random secret of this name. The first call creates it; every registry of
// the same database has the same secret.
func (r *Settings) Secret(ctx context.Context, name string, bytes int) ([]byte, error) {
	what := "read secret " + name
	value, err := r.db.setting(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		fresh := make([]byte, bytes)
		rand.Read(fresh)
		err = r.db.execute(ctx, "create secret "+name, "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, fresh)
		if err != nil {
			return nil, err
		}
		value, err = r.db.setting(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, r.db.fault(err))
	}
	if len(value) != bytes {
		return nil, fmt.Errorf("%s: it has %d bytes, not %d", what, len(value), bytes)
	}
	return value, nil
}

func (d *database) setting(ctx context.Context, name string) (value []byte, err error) {
	err = d.read.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", name).Scan(&value)
	return value, err
}

// notFound replaces the error of a query that found no row by site.ErrNotFound.
func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return site.ErrNotFound
	}
	return err
}
