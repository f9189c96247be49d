package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// PutObject stores an object of a run in place of the one with the same name. If body is nil, the
// bytes are in the object store under o.Stored. replaced is the name in the object store that no
// object of the run has now: that of the replaced object, or o.Stored if nothing changes; empty if there
// is none.
//
// After the finish a CSV object can only be stored again with the same bytes, which changes nothing;
// other bytes are site.ErrFinished. The record may be replaced at any time. With it comes what it
// says about the run, from which the row of the job is made.
func (r *Registry) PutObject(ctx context.Context, o site.Object, body []byte, record *rt.Run) (replaced string, err error) {
	what := fmt.Sprintf("store object %s of run %s", o.Name, o.RunID)
	if record != nil {
		if err := checkRecord(record); err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
	}
	err = r.change(ctx, what, func(tx transaction) error {
		replaced = ""
		run, err := r.lockRun(ctx, tx, o.RunID)
		if err != nil {
			return err
		}
		replaced, err = r.putRow(ctx, tx, run, o, body)
		if err != nil || record == nil {
			return err
		}
		return r.putRecord(ctx, tx, run, record)
	})
	if err != nil {
		return "", err
	}
	return replaced, nil
}

// putRow stores the row of an object and charges it to the owner of the run.
func (r *Registry) putRow(ctx context.Context, tx transaction, run lockedRun, o site.Object, body []byte) (replaced string, err error) {
	var count, bytes int64
	var sum, stored sql.NullString
	err = tx.QueryRowContext(ctx, `SELECT c.objects, o.sha256, o.stored, coalesce(o.bytes, 0)
		FROM (SELECT count(*) AS objects FROM object WHERE run_id = $1) c LEFT JOIN object o ON o.run_id = $1 AND o.name = $2`,
		o.RunID, o.Name).Scan(&count, &sum, &stored, &bytes)
	if err != nil {
		return "", err
	}
	isNew := !sum.Valid
	isSame := !isNew && sum.String == o.SHA256
	switch isClosed := run.finish != nil && o.Class != site.ClassRecord; {
	case isClosed && isSame:
		return unnamed(ctx, tx, o.RunID, o.Stored)
	case isClosed:
		return "", site.ErrFinished
	case isNew && count >= MaxObjects:
		return "", fmt.Errorf("%w: %d", site.ErrTooMany, count)
	}
	if o.Created.IsZero() {
		o.Created = time.Now()
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO object (run_id, name, class, bytes, sha256, csv_rows, csv_bytes, header_bytes, stored, created, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (run_id, name) DO UPDATE SET class = excluded.class, bytes = excluded.bytes, sha256 = excluded.sha256,
			csv_rows = excluded.csv_rows, csv_bytes = excluded.csv_bytes, header_bytes = excluded.header_bytes,
			stored = excluded.stored, created = excluded.created, body = excluded.body`,
		o.RunID, o.Name, string(o.Class), o.Bytes, o.SHA256, o.Rows, o.Text, o.Header, o.Stored, micros(o.Created), body)
	if err != nil {
		return "", err
	}
	grown := o.Bytes - bytes
	if isNew {
		grown += rowBytes
	}
	if err := r.charge(ctx, tx, o.RunID, run.owner, grown); err != nil {
		return "", err
	}
	return unnamed(ctx, tx, o.RunID, stored.String)
}

// unnamed returns a name in the object store if no object of the run has it, else "".
func unnamed(ctx context.Context, tx transaction, runID, stored string) (string, error) {
	if stored == "" {
		return "", nil
	}
	var count int64
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM object WHERE run_id = $1 AND stored = $2", runID, stored).Scan(&count)
	if err != nil || count > 0 {
		return "", err
	}
	return stored, nil
}

// Objects returns the objects of a run by name.
func (r *Registry) Objects(ctx context.Context, runID string) ([]site.Object, error) {
	rows, err := r.db.QueryContext(ctx, `SELECT run_id, name, class, bytes, sha256, csv_rows, csv_bytes, header_bytes, stored, created
		FROM object WHERE run_id = $1 ORDER BY name`, runID)
	objects, err := collect(rows, err, scanObject)
	if err != nil {
		return nil, fmt.Errorf("list the objects of run %s: %w", runID, fault(err))
	}
	return objects, nil
}

func scanObject(from row) (o site.Object, err error) {
	var created int64
	err = from.Scan(&o.RunID, &o.Name, &o.Class, &o.Bytes, &o.SHA256, &o.Rows, &o.Text, &o.Header, &o.Stored, &created)
	o.Created = moment(created)
	return o, err
}

// Body returns the bytes of an object that the registry holds. For an object in the object store
// it returns site.ErrNotFound.
func (r *Registry) Body(ctx context.Context, runID, name string) ([]byte, error) {
	var body []byte
	var stored string
	err := r.db.QueryRowContext(ctx, "SELECT body, stored FROM object WHERE run_id = $1 AND name = $2", runID, name).Scan(&body, &stored)
	if err == nil && stored != "" {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s of run %s: %w", name, runID, fault(notFound(err)))
	}
	if body == nil {
		body = []byte{}
	}
	return body, nil
}

// errNumber is the error of a number in a record that the database cannot store.
var errNumber = errors.New("a number of the record is too large")
