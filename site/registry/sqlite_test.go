package registry

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mattn/go-sqlite3"

	"github.com/resource-tracker/rt/site"
)

// commitGroup makes changes in one transaction of a new database.
func commitGroup(t *testing.T, changes ...func(transaction) error) (errs []error) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "group.db")+"?_foreign_keys=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { is(t, "close", db.Close(), nil) })
	for _, table := range []string{"CREATE TABLE a (id INTEGER PRIMARY KEY)", "CREATE TABLE b (a INTEGER REFERENCES a DEFERRABLE INITIALLY DEFERRED)"} {
		_, err := db.ExecContext(t.Context(), table)
		is(t, "tables", err, nil)
	}
	var group []*change
	for _, do := range changes {
		group = append(group, &change{ctx: t.Context(), do: do, done: make(chan struct{})})
	}
	(&sqliteWriter{db: db}).commit(group)
	for _, c := range group {
		errs = append(errs, c.err)
	}
	var rows int
	is(t, "count", db.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b)").Scan(&rows), nil)
	same(t, "rows", rows, 0)
	return errs
}

func statement(query string, then error) func(transaction) error {
	return func(tx transaction) error {
		_, err := tx.ExecContext(context.Background(), query)
		return errors.Join(err, then)
	}
}

// If a change that fails ends the transaction, the others fail as well, but not with its reason.
func TestChangesOfATransactionThatIsRolledBack(t *testing.T) {
	insert := statement("INSERT INTO a VALUES (1)", nil)
	errs := commitGroup(t, insert, statement("ROLLBACK", site.ErrFinished), insert)
	is(t, "the change itself", errs[1], site.ErrFinished)
	for _, err := range []error{errs[0], errs[2]} {
		isOwn := err != nil && !errors.Is(err, site.ErrFinished) && strings.Contains(err.Error(), "rolled back")
		if !isOwn {
			t.Errorf("another change: %v", err)
		}
	}
	full := sqlite3.Error{Code: sqlite3.ErrFull}
	errs = commitGroup(t, insert, statement("ROLLBACK", full))
	is(t, "on a full disk", fault(errs[0]), site.ErrFull)
}

// A change that fails does not undo the others of its transaction, which see each other.
func TestChangeThatFailsInAGroup(t *testing.T) {
	r, err := Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w := r.db.writer.(*sqliteWriter)
	add := statement("INSERT INTO leftover VALUES ('a')", nil)
	more := statement("INSERT INTO leftover SELECT stored || 'b' FROM leftover", nil)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var group []*change
	for _, do := range []func(transaction) error{add, statement("INSERT INTO leftover VALUES ('wrong')", site.ErrFinished), more, add} {
		group = append(group, &change{ctx: t.Context(), do: do, done: make(chan struct{})})
	}
	group = append(group, &change{ctx: cancelled, do: add, done: make(chan struct{})})
	w.commit(group)
	is(t, "first", group[0].err, nil)
	is(t, "failed", group[1].err, site.ErrFinished)
	is(t, "third", group[2].err, nil)
	if group[3].err == nil {
		t.Error("the same name is there twice")
	}
	is(t, "cancelled", group[4].err, context.Canceled)
	names, err := r.Removals.LeftoverObjects(t.Context(), "", 10)
	is(t, "Leftover", err, nil)
	same(t, "names", strings.Join(names, " "), "a ab")
}

// After a commit that fails the changes may be durable.
func TestCommitThatFails(t *testing.T) {
	errs := commitGroup(t, statement("INSERT INTO b VALUES (7)", nil))
	is(t, "commit", errs[0], site.ErrUnclear)
}
