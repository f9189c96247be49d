package registry

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// PutObject stores an object of a run and replaces one with the same name. If body is nil, the
// bytes are in the object store under o.Stored. replaced is a name in the object store that no
// object of the run has now. It is the replaced object's name, or o.Stored if nothing changes;
// empty if there is none.
//
// After the finish a CSV object can only be stored again with the same bytes, which changes
// nothing; other bytes are site.ErrFinished. A newer record may replace the record at any time; an
// older one is site.ErrOlder. record is what the record says about the run. site.CheckRecordRun has
// checked it, and the row of the job is made from it.
func (r *Runs) PutObject(ctx context.Context, o site.Object, body []byte, record *rt.Run) (replaced string, err error) {
	what := fmt.Sprintf("store object %s of run %s", o.Name, o.RunID)
	var text []byte
	if record != nil {
		err = site.CheckRecordNumbers(record)
		if err == nil {
			text, err = site.EncodeJSON(record)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
	}
	err = r.db.change(ctx, what, func(tx transaction) error {
		replaced = ""
		run, err := r.lockRun(ctx, tx, o.RunID)
		if err != nil {
			return err
		}
		rows, err := rowsNamed(ctx, tx, run, o.Name, o.Name)
		if err != nil {
			return err
		}
		old := rows[o.Name]
		if record != nil {
			err := checkNewer(run, old, o, record)
			if err != nil {
				return err
			}
		}
		put, err := r.putRow(ctx, tx, run, old, o, body)
		if err != nil {
			return err
		}
		if record != nil {
			_, err = r.putEncoded(ctx, tx, run, record, text, put)
		} else {
			err = r.addObject(ctx, tx, run, put)
		}
		if err != nil {
			return err
		}
		replaced, err = unnamed(ctx, tx, run.id, put.old)
		return err
	})
	if err != nil {
		return "", err
	}
	return replaced, nil
}

// objectRow is the row of an object that is there; the zero value is none.
type objectRow struct {
	class         site.Class
	sum, stored   string
	bytes, signed int64
}

// rowsNamed returns the rows of a run with one of two names, which may be the same.
func rowsNamed(ctx context.Context, tx transaction, run lockedRun, one, other string) (map[string]objectRow, error) {
	if run.objects == 0 {
		return nil, nil
	}
	named := map[string]objectRow{}
	_, err := collect(ctx, tx, func(scan scanFunc) (name string, err error) {
		var o objectRow
		err = scan(&name, &o.class, &o.sum, &o.stored, &o.bytes, &o.signed)
		named[name] = o
		return name, err
	}, "SELECT name, class, sha256, stored, bytes, signed FROM object WHERE run_id = $1 AND name IN ($2, $3)", run.id, one, other)
	return named, err
}

// checkNewer refuses a record that a delayed request brings. Such a record is from before the end
// of an ended run, or its upload was signed before the stored record's upload. The first record of
// the end is accepted whenever it was signed: the clock of a node may be set back.
func checkNewer(run lockedRun, old objectRow, o site.Object, record *rt.Run) error {
	hasEnded := run.state.Valid && run.state.String != string(rt.StateRunning)
	ends := record.State != rt.StateRunning
	switch {
	case hasEnded && !ends:
		return fmt.Errorf("%w: of its end", site.ErrOlder)
	case !hasEnded && ends:
		return nil
	case old.class != "" && signedMicros(o) < old.signed:
		return fmt.Errorf("%w: its upload was signed at %s", site.ErrOlder, moment(old.signed).Format(time.RFC3339))
	}
	return nil
}

// signedMicros is the column of Signed: 0 for an object that is not a record.
func signedMicros(o site.Object) int64 {
	if o.Signed.IsZero() {
		return 0
	}
	return micros(o.Signed)
}

// putResult is what putRow has changed, and its caller adds to the run and to the quotas.
type putResult struct {
	objects, bytes int64
	old            string // name in the object store that the row had, or that the object does not need
}

// putRow stores the row of an object in place of the old one. The caller adds the result to the run and charges it.
func (r *Runs) putRow(ctx context.Context, tx transaction, run lockedRun, old objectRow, o site.Object, body []byte) (put putResult, err error) {
	isNew := old.class == ""
	isSame := !isNew && old.sum == o.SHA256
	switch isClosed := run.finish != nil && o.Class != site.ClassRecord; {
	case isClosed && isSame:
		return putResult{old: o.Stored}, nil
	case isClosed:
		return put, site.ErrFinished
	case isNew && run.objects >= MaxObjects:
		return put, fmt.Errorf("%w: %d", site.ErrTooMany, run.objects)
	}
	if o.Created.IsZero() {
		o.Created = time.Now()
	}
	err = execute(ctx, tx, `INSERT INTO object (run_id, name, class, bytes, sha256, csv_rows, csv_bytes, header_bytes, stored, created, signed, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (run_id, name) DO UPDATE SET class = excluded.class, bytes = excluded.bytes, sha256 = excluded.sha256,
			csv_rows = excluded.csv_rows, csv_bytes = excluded.csv_bytes, header_bytes = excluded.header_bytes,
			stored = excluded.stored, created = excluded.created, signed = excluded.signed, body = excluded.body`,
		run.id, o.Name, string(o.Class), o.Bytes, o.SHA256, o.Rows, o.Text, o.Header, o.Stored, micros(o.Created), signedMicros(o), body)
	put = putResult{bytes: o.Bytes - old.bytes, old: old.stored}
	if isNew {
		put.objects, put.bytes = 1, put.bytes+rowBytes
	}
	return put, err
}

// addObject adds what putRow has changed to the run and charges it to the owner of the run.
func (r *Runs) addObject(ctx context.Context, tx transaction, run lockedRun, put putResult) error {
	if put.objects > 0 {
		if err := execute(ctx, tx, "UPDATE run SET objects = objects + 1 WHERE id = $1", run.id); err != nil {
			return err
		}
	}
	return r.quotas.charge(ctx, tx, run.id, run.owner, put.bytes)
}

// unnamed returns a name in the object store if no object of the run has it, else "".
func unnamed(ctx context.Context, tx transaction, runID, stored string) (string, error) {
	if stored == "" {
		return "", nil
	}
	var count int64
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM object WHERE run_id = $1 AND stored = $2 AND stored <> ''", runID, stored).Scan(&count)
	if err != nil || count > 0 {
		return "", err
	}
	return stored, nil
}

// Objects reads the objects of runs.
type Objects struct{ db *database }

// OfRun returns the objects of a run by name.
func (r *Objects) OfRun(ctx context.Context, runID string) ([]site.Object, error) {
	return list(ctx, r.db, "list the objects of run "+runID, scanObject, "SELECT "+objectColumns+" FROM object WHERE run_id = $1 ORDER BY name", runID)
}

const objectColumns = "run_id, name, class, bytes, sha256, csv_rows, csv_bytes, header_bytes, stored, created, signed"

func scanObject(scan scanFunc) (o site.Object, err error) {
	var created, signed int64
	err = scan(&o.RunID, &o.Name, &o.Class, &o.Bytes, &o.SHA256, &o.Rows, &o.Text, &o.Header, &o.Stored, &created, &signed)
	o.Created = moment(created)
	if signed != 0 {
		o.Signed = moment(signed)
	}
	return o, err
}

// Open opens the bytes of an object, in the registry or in the object store.
func (r *Objects) Open(ctx context.Context, store site.ObjectStore, o site.Object) (io.ReadCloser, error) {
	if o.Stored != "" {
		return store.Get(ctx, o.Stored)
	}
	body, err := r.Body(ctx, o.RunID, o.Name)
	return io.NopCloser(bytes.NewReader(body)), err
}

// RecordOf returns the object with the complete record of a run, or site.ErrNotFound.
func (r *Objects) RecordOf(ctx context.Context, runID string) (site.Object, error) {
	objects, err := r.OfRun(ctx, runID)
	if err != nil {
		return site.Object{}, err
	}
	for _, o := range objects {
		if o.Class == site.ClassRecord {
			return o, nil
		}
	}
	return site.Object{}, fmt.Errorf("the record of run %s: %w", runID, site.ErrNotFound)
}

// Unnamed yields the objects in the object store below the name of a run that are older than a time, and that
// no row names.
func (r *Objects) Unnamed(ctx context.Context, store site.ObjectStore, before time.Time) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		run := ""
		var named map[string]bool // the objects of this run
		for o, err := range store.List(ctx, "") {
			id, _, isBelow := strings.Cut(o.Name, "/")
			isCandidate := isBelow && o.Modified.Before(before)
			if err == nil && isCandidate && id != run {
				named, err = r.storedNames(ctx, id)
				run = id
			}
			if err != nil {
				yield(o, fmt.Errorf("look for objects that no run names: %w", err))
				return
			}
			isUnnamed := isCandidate && !named[o.Name]
			if isUnnamed && !yield(o, nil) {
				return
			}
		}
	}
}

// storedNames returns the names in the object store that a run has.
func (r *Objects) storedNames(ctx context.Context, runID string) (map[string]bool, error) {
	objects, err := r.OfRun(ctx, runID)
	names := map[string]bool{}
	for _, o := range objects {
		names[o.Stored] = true
	}
	return names, err
}

// Body returns the bytes of an object that the registry holds. For an object in the object store
// it returns site.ErrNotFound.
func (r *Objects) Body(ctx context.Context, runID, name string) ([]byte, error) {
	var body []byte
	var stored string
	err := r.db.read.QueryRowContext(ctx, "SELECT body, stored FROM object WHERE run_id = $1 AND name = $2", runID, name).Scan(&body, &stored)
	if err == nil && stored != "" {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s of run %s: %w", name, runID, r.db.fault(notFound(err)))
	}
	if body == nil {
		body = []byte{}
	}
	return body, nil
}
