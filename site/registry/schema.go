package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
)

// firstVersion is the version of the tables in the first release, 0.2.0.
const firstVersion = 2

// signature is the setting with the version of rt-site that has opened the database last, to change it.
const signature = "rt-site"

// signSchema stores the version of this program in the database, unless the disk is full.
func signSchema(ctx context.Context, db *sql.DB) error {
	if writtenBy(ctx, db) == "rt-site "+rt.Version {
		return nil
	}
	err := execute(ctx, db, putSetting, signature, []byte(rt.Version))
	if isFull(err) {
		return nil
	}
	return err
}

// writtenBy names the version of rt-site that has written the database.
func writtenBy(ctx context.Context, db *sql.DB) string {
	var version []byte
	err := db.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1", signature).Scan(&version)
	if err != nil || len(version) > 64 {
		return "another version of rt-site"
	}
	return "rt-site " + printable.Text(string(version))
}

// WrittenBy names the version of rt-site that has opened the database last, to change it.
func (r *Registry) WrittenBy(ctx context.Context) string { return writtenBy(ctx, r.db.read) }

// versionOf returns the version of the tables. Not by goose's provider, which creates its own table.
func versionOf(ctx context.Context, db *sql.DB) (version int64, err error) {
	err = db.QueryRowContext(ctx, "SELECT max(version_id) FROM goose_db_version").Scan(&version)
	return version, err
}

// checkSchema checks that the tables are of this version.
func checkSchema(ctx context.Context, dialect goose.Dialect, db *sql.DB, version int64) error {
	found, err := versionOf(ctx, db)
	switch {
	case err != nil:
		return fmt.Errorf("read the version of the tables, which rt-site serve creates when it starts: %w", err)
	case found < firstVersion:
		return fmt.Errorf("%w: a version before the first release, 0.2.0, wrote them (version %d): keep that rt-site for what they have, and set serve.dir or serve.database to a new place", ErrSchema, found)
	case found < version:
		return fmt.Errorf("%w: %s wrote version %d, not %d: rt-site serve migrates them when it starts: restart it with this version", ErrSchema, writtenBy(ctx, db), found, version)
	case found > version:
		return fmt.Errorf("%w: %s wrote version %d, not %d: use the version of rt-site that rt-site serve has", ErrSchema, writtenBy(ctx, db), found, version)
	}
	return compareSchema(ctx, dialect, db)
}

// compareSchema compares the columns of the tables with the statements of the migrations.
func compareSchema(ctx context.Context, dialect goose.Dialect, db *sql.DB) error {
	want, err := expectedColumns()
	if err != nil {
		return err
	}
	query := "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
	if dialect == goose.DialectPostgres {
		query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()"
	}
	found, err := collect(ctx, db, func(scan scanFunc) (column string, err error) {
		var table string
		err = scan(&table, &column)
		return table + "." + column, err
	}, query)
	if err != nil {
		return err
	}
	var wrong []string
	for _, column := range want {
		if !slices.Contains(found, column) {
			wrong = append(wrong, column+" is missing")
		}
	}
	for _, column := range found {
		table, _, _ := strings.Cut(column, ".")
		isOurs := slices.ContainsFunc(want, func(c string) bool { return strings.HasPrefix(c, table+".") })
		if isOurs && !slices.Contains(want, column) {
			wrong = append(wrong, column+" is not known")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%w: %s wrote them with other columns, though with the same number: %s", ErrSchema, writtenBy(ctx, db), strings.Join(wrong[:min(len(wrong), 5)], ", "))
}

var (
	tableStatement = regexp.MustCompile(`(?ms)^CREATE TABLE (\w+) \($(.*?)^\);$`)
	columnLine     = regexp.MustCompile(`(?m)^    ([a-z]\w*) +[A-Z]`)
)

// expectedColumns returns the columns of the tables that the migrations create, as TABLE.COLUMN.
func expectedColumns() (columns []string, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	for _, file := range files {
		text, failed := migrations.ReadFile(file)
		err = errors.Join(err, failed)
		for _, table := range tableStatement.FindAllStringSubmatch(string(text), -1) {
			for _, column := range columnLine.FindAllStringSubmatch(table[2], -1) {
				columns = append(columns, table[1]+"."+column[1])
			}
		}
	}
	return columns, err
}
