package spool

import (
	_ "embed"
	"fmt"

	"github.com/resource-tracker/rt/internal/printable"
)

// emptyDB is a database of firstVersion without a row. A new file is a copy of it, with all migrations. To run the
// statements takes 3 ms, a quarter of a job's wait for its first reading. TestTemplate compares it
// with schema/spool.sql, and writes it with -update.
//
//go:embed schema/new.db
var emptyDB string

// applicationID marks a spool file: "rtsp" in ASCII, in the header of the database.
const applicationID = 0x72747370

// firstVersion is the user_version of the first release, 0.2.0. Version 1 was before it, with several schemas.
const firstVersion = 2

// migrations[n] takes a database from user_version firstVersion+n to the one after it. Append only: after the release of
// firstVersion schema/spool.sql stays as it is. A new file gets the same migrations as an old one, so both have the same
// statements. TestSchemaHasItsNumber fails if a schema changes without its number.
var migrations []string

// newest is the user_version that this package writes.
func newest() int { return firstVersion + len(migrations) }

// pageSize in bytes. A commit writes whole pages, several of them: small pages
// keep what is written per snapshot low (measured, see DESIGN.md).
const pageSize = 1024

// migrate brings a database to the newest version.
func migrate(c *conn, from int) error {
	return c.inTx(func() error {
		now, err := c.queryInt("PRAGMA user_version")
		if err != nil || int(now) > from {
			return err // another process was faster
		}
		for n, sql := range migrations[from-firstVersion:] {
			if err := c.exec(sql); err != nil {
				return fmt.Errorf("migrate from version %d: %w", from+n, err)
			}
		}
		return c.exec(pragma("user_version", int64(newest())))
	})
}

// check returns the version of the database, or an error where it is not a spool file
// that this package can read.
func check(c *conn, path string) (int, error) {
	id, err := c.queryInt("PRAGMA application_id")
	if err != nil {
		return 0, describe(path, err)
	}
	v, err := c.queryInt("PRAGMA user_version")
	switch {
	case err != nil:
		return 0, describe(path, err)
	case id != applicationID:
		return 0, fmt.Errorf("%s: %w: its application_id is %#x, not %#x", path, ErrForeign, id, applicationID)
	case v < 1:
		return 0, damaged(path, fmt.Errorf("its user_version is %d", v))
	case v > int64(newest()):
		return 0, &intactError{path, ErrNewer, fmt.Errorf("%s wrote it, with tables of version %d, and this program reads versions up to %d; use that version of rt-spool", c.writtenBy(), v, newest())}
	case v < firstVersion:
		return 0, &intactError{path, ErrOld, fmt.Errorf("%s wrote it, before the first release, 0.2.0; rt-spool drain or export of that version delivers it", c.writtenBy())}
	}
	if err := c.ours(int(v)); err != nil {
		return 0, refused(path, err)
	}
	return int(v), nil
}

// writtenBy names the version of rt that wrote a database of another version. It comes from any source.
func (c *conn) writtenBy() string {
	const unknown = "another version of rt"
	isTable, err := c.queryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'run' AND tbl_name = 'run'")
	if err != nil || isTable != 1 { // a view would run as SQL
		return unknown
	}
	row, err := c.query("SELECT substr(CAST(tracker_version AS TEXT), 1, 64) FROM run LIMIT 1")
	if err != nil || len(row) != 1 {
		return unknown
	}
	version, _ := row[0].(string)
	if version == "" {
		return unknown
	}
	return "rt " + printable.Text(version)
}
