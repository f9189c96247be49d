package spool

import (
	_ "embed"
	"errors"

	"github.com/resource-tracker/rt"
)

// viewsSQL inserts the views of schema/spool.sql into sqlite_schema, with the text that CREATE VIEW stores, and creates the
// shortest one. SQLite takes a millisecond to parse the views, each time that it opens a file that has them. A job waits for a
// new file, so the Writer inserts the views later, and parses only the one that it creates: with that the version of the schema
// changes, and other connections read the schema again. TestTemplate compares it with schema/spool.sql, and writes it with
// -update.
//
//go:embed schema/views.sql
var viewsSQL string

// viewsAreDue reports whether the file gets its views after this transaction: it is the second one with snapshots, or ends
// the run.
func (w *Writer) viewsAreDue() bool {
	isSecond := w.enc.state.seq > 0 && len(w.rows.rows) > 0
	areDue := isSecond || w.run.State != rt.StateRunning
	return areDue && !w.hasViews
}

// addViews inserts the views, if the file lacks them, in a transaction of its own.
func (w *Writer) addViews() error {
	if w.hasViews {
		return nil
	}
	err := w.db.inTx(func() error {
		n, err := w.db.countViews()
		if err != nil || n > 0 {
			return err
		}
		return w.db.insertViews()
	})
	w.hasViews = err == nil
	return err
}

// insertViews inserts the views in a transaction. The connection does not see them, except for one.
func (c *conn) insertViews() error {
	err := c.exec("PRAGMA writable_schema = ON; " + viewsSQL)
	return errors.Join(err, c.exec("PRAGMA writable_schema = OFF"))
}

// addViews inserts the views in a transaction, if the file lacks them, and reads the schema again. A tracker that died
// after its first commit leaves such a file.
func (c *conn) addViews() error {
	n, err := c.countViews()
	if err != nil || n > 0 {
		return err
	}
	err = c.insertViews()
	return errors.Join(err, c.exec("PRAGMA writable_schema = RESET"))
}

func (c *conn) countViews() (int64, error) {
	return c.queryInt("SELECT count(*) FROM sqlite_schema WHERE type = 'view'")
}
