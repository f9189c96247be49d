package lake

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	icebergio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // tables in S3

	"github.com/resource-tracker/rt/internal/file"
)

// catalogName is the name of the catalog in its database.
const catalogName = "rt"

// SQLCatalog is a catalog in a database. store has the properties of iceberg-go for the files, such as the keys of S3.
func SQLCatalog(db *sql.DB, isPostgres bool, store map[string]string) (catalog.Catalog, error) {
	keepFiles()
	dialect := sqlcatalog.SQLite
	if isPostgres {
		dialect = sqlcatalog.Postgres
	}
	c, err := sqlcatalog.NewCatalog(catalogName, db, dialect, iceberg.Properties(store))
	if err != nil {
		return nil, fmt.Errorf("open the catalog of the lake in the database of the site: %w", err)
	}
	return &siteCatalog{c, db, store}, nil
}

// siteCatalog is a catalog in the database of a site.
type siteCatalog struct {
	*sqlcatalog.Catalog
	db    *sql.DB
	store map[string]string
}

// followHint replaces the metadata of a table if its hint, in dir, names later ones. The names begin with a number.
func (c *siteCatalog) followHint(ctx context.Context, table, dir string) error {
	files, err := icebergio.LoadFS(ctx, c.store, dir)
	if err != nil {
		return err
	}
	hint, err := files.(icebergio.ReadFileIO).ReadFile(dir + hintName)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	last := dir + string(hint)
	_, err = c.db.ExecContext(ctx, "UPDATE iceberg_tables SET metadata_location = $1 WHERE catalog_name = $2 AND table_name = $3 AND metadata_location BETWEEN $4 AND $5",
		last+metadataSuffix, catalogName, table, dir, last)
	return err
}

// RESTCatalog is a REST catalog at an address.
func RESTCatalog(ctx context.Context, address, token string, store map[string]string) (catalog.Catalog, error) {
	keepFiles()
	c, err := rest.NewCatalog(ctx, catalogName, address, rest.WithOAuthToken(token), rest.WithAdditionalProps(iceberg.Properties(store)))
	if err != nil {
		return nil, fmt.Errorf("open the catalog of the lake: %w", err)
	}
	return c, nil
}

// keepFiles lets all new local files be on the disk before a snapshot names them.
func keepFiles() {
	icebergio.Unregister("file")
	icebergio.Register("file", func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return durableFS{}, nil })
}

// durableFS is the local file system. A new file is on the disk when it is closed. Its group may read it.
type durableFS struct{ icebergio.LocalFS }

// Create creates a file.
func (fs durableFS) Create(name string) (icebergio.FileWriter, error) {
	path, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	if err := file.MkdirAll(filepath.Dir(path.Path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path.Path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	return durableFile{f}, err
}

// WriteFile creates or replaces a file. A reader finds the old content or the new one.
func (fs durableFS) WriteFile(name string, content []byte) error {
	f, err := fs.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return fs.Rename(name+".new", name)
}

type durableFile struct{ *os.File }

// Close closes the file durably.
func (f durableFile) Close() error {
	return errors.Join(f.Sync(), f.File.Close(), file.SyncDir(filepath.Dir(f.Name())))
}
