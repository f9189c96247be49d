package spool

import (
	_ "embed"
	"fmt"
)

// applicationID marks a spool file: "rtsp" in ASCII, in the header of the database.
const applicationID = 0x72747370

// migrations[n] takes a database from user_version n to n+1. Append only.
var migrations = [...]string{schema001, schema002, schema003}

var (
	//go:embed schema/001.sql
	schema001 string
	//go:embed schema/002.sql
	schema002 string
	//go:embed schema/003.sql
	schema003 string
)

// version is the user_version that this package writes.
const version = len(migrations)

// pageSize in bytes. A commit writes whole pages, several of them: small pages
// keep what is written per snapshot low (measured, see DESIGN.md).
const pageSize = 1024

// migrate brings a database from the version it has to the newest one.
func migrate(c *conn, from int) error {
	return c.inTx(func() error {
		now, err := c.queryInt("PRAGMA user_version")
		if err != nil || int(now) > from {
			return err // another process was faster
		}
		for n := from; n < version; n++ {
			if err := c.exec(migrations[n]); err != nil {
				return fmt.Errorf("migration %d: %w", n+1, err)
			}
		}
		return c.exec(pragma("user_version", int64(version)))
	})
}

// check tells whether the database is a spool file that this package can read
// and returns its version.
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
	case v > int64(version):
		return 0, fmt.Errorf("%s: %w: it has version %d and this program knows up to %d; use the newer rt-spool that is installed where it was written",
			path, ErrNewer, v, version)
	}
	return int(v), nil
}
