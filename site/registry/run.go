package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// Runs stores what clients deliver of runs.
type Runs struct {
	db     *database
	quotas quotas
	jobs   jobRows
}

// Create stores a new run. The finish and the record of r are not stored.
func (r *Runs) Create(ctx context.Context, run site.StoredRun) error {
	metadata := append([]byte{}, run.Metadata...) // nil would be NULL
	charged := rowBytes + int64(len(metadata))
	return r.db.change(ctx, "create run "+run.ID, func(tx transaction) error {
		err := execute(ctx, tx, "INSERT INTO run (id, owner, created, charged, metadata) VALUES ($1, $2, $3, $4, $5)",
			run.ID, run.Owner, micros(run.Created), charged, metadata)
		if err != nil {
			return err
		}
		return r.quotas.charge(ctx, tx, run.ID, run.Owner, charged)
	})
}

const runColumns = "id, owner, created, metadata, finish, finished, record, expired"

// Get returns a run, or site.ErrNotFound.
func (r *Runs) Get(ctx context.Context, id string) (site.StoredRun, error) {
	run, err := scanRun(r.db.read.QueryRowContext(ctx, "SELECT "+runColumns+" FROM run WHERE id = $1", id).Scan)
	if err != nil {
		return site.StoredRun{}, fmt.Errorf("read run %s: %w", id, r.db.fault(notFound(err)))
	}
	return run, nil
}

// Head returns the id, the owner and the finish of a run, or site.ErrNotFound. Unlike the record and
// the registration, they are small.
func (r *Runs) Head(ctx context.Context, id string) (site.StoredRun, error) {
	run := site.StoredRun{ID: id}
	var finish []byte
	err := r.db.read.QueryRowContext(ctx, "SELECT owner, finish FROM run WHERE id = $1", id).Scan(&run.Owner, &finish)
	if err == nil {
		run.Finish, err = decode[site.Finish](finish)
	}
	if err != nil {
		return site.StoredRun{}, fmt.Errorf("read run %s: %w", id, r.db.fault(notFound(err)))
	}
	return run, nil
}

// IDs returns at most limit ids of runs after the given one, the oldest first.
func (r *Runs) IDs(ctx context.Context, after string, limit int) ([]string, error) {
	return r.db.texts(ctx, "list the runs", "SELECT id FROM run WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
}

// AllIDs yields the ids of all runs, the oldest first, also of those that are registered meanwhile.
func (r *Runs) AllIDs(ctx context.Context) iter.Seq2[string, error] {
	const limit = 1000
	return site.AllPages(func(after string) (ids []string, next string, err error) {
		ids, err = r.IDs(ctx, after, limit)
		if len(ids) > 0 {
			next = ids[len(ids)-1]
		}
		return ids, next, err
	})
}

// OwnIDs returns at most limit ids of the runs of an owner after the given id, the oldest first.
func (r *Runs) OwnIDs(ctx context.Context, owner, after string, limit int) ([]string, error) {
	return r.db.texts(ctx, "list the runs of an owner", "SELECT id FROM run WHERE owner = $1 AND id > $2 ORDER BY id LIMIT $3", owner, after, limit)
}

// scanFunc is the method Scan of a *sql.Row or *sql.Rows.
type scanFunc func(to ...any) error

// scanText reads a row with one text.
func scanText(scan scanFunc) (text string, err error) {
	err = scan(&text)
	return text, err
}

// texts returns the rows of a query for one text each; what names it in an error.
func (d *database) texts(ctx context.Context, what, query string, args ...any) ([]string, error) {
	return list(ctx, d, what, scanText, query, args...)
}

// list is collect without a transaction; what names it in an error.
func list[T any](ctx context.Context, d *database, what string, read func(scanFunc) (T, error), query string, args ...any) ([]T, error) {
	all, err := collect(ctx, d.read, read, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, d.fault(err))
	}
	return all, nil
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, from transaction, read func(scanFunc) (T, error), query string, args ...any) ([]T, error) {
	rows, err := from.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		one, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func scanRun(scan scanFunc) (site.StoredRun, error) {
	var run site.StoredRun
	var metadata, finish, record []byte
	var created int64
	var finished sql.NullInt64
	var expired string
	if err := scan(&run.ID, &run.Owner, &created, &metadata, &finish, &finished, &record, &expired); err != nil {
		return site.StoredRun{}, err
	}
	run.Created, run.Metadata = moment(created), metadata
	for class := range strings.FieldsSeq(expired) {
		run.Expired = append(run.Expired, site.Class(class))
	}
	if finished.Valid {
		run.Finished = moment(finished.Int64)
	}
	var failed [2]error
	run.Finish, failed[0] = decode[site.Finish](finish)
	run.Record, failed[1] = decode[rt.Run](record)
	if err := errors.Join(failed[:]...); err != nil {
		return site.StoredRun{}, fmt.Errorf("%w: run %s: %w", site.ErrDamaged, run.ID, err)
	}
	return run, nil
}

// decode parses a column of JSON; NULL is nil.
func decode[T any](text []byte) (*T, error) {
	if text == nil {
		return nil, nil
	}
	v := new(T)
	return v, json.Unmarshal(text, v)
}

// micros is how the database stores a time.
func micros(t time.Time) int64 { return t.UnixMicro() }

func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// lockedRun is the row of a run that a change has locked.
type lockedRun struct {
	id, owner string
	charged   int64
	objects   int64
	record    int64          // bytes of the record as JSON
	state     sql.NullString // running also if it has ended as silent
	finish    *site.Finish
	job       jobKey // zero: of no job
}

func (r *Runs) lockRun(ctx context.Context, tx transaction, id string) (lockedRun, error) {
	run := lockedRun{id: id}
	var finish []byte
	err := tx.QueryRowContext(ctx, "SELECT owner, charged, objects, coalesce(length(record), 0), CASE WHEN accounted < 0 THEN '"+string(rt.StateRunning)+"' ELSE state END, finish, coalesce(cluster, ''), coalesce(job_id, 0), coalesce(generation, 0) FROM run WHERE id = $1"+r.db.lock, id).
		Scan(&run.owner, &run.charged, &run.objects, &run.record, &run.state, &finish, &run.job.cluster, &run.job.id, &run.job.generation)
	if err == nil {
		run.finish, err = decode[site.Finish](finish)
	}
	return run, notFound(err)
}

// Finish stores the end of a run, with the object of its inline data if it has any. A repeated
// finish with the same rows changes the outcome and the summary, because accounting may have
// corrected them; with other rows it is site.ErrFinished. site.ErrMissing means that a key of the
// finish has no object, or that the stored record is not the one with RecordSum.
func (r *Runs) Finish(ctx context.Context, id string, f site.Finish, inline *site.Object, body []byte) (done site.Finished, err error) {
	text, err := site.EncodeJSON(f)
	if err != nil {
		return done, fmt.Errorf("finish run %s: %w", id, err)
	}
	now, said := time.Now(), summaryColumnsOf(f.Summary)
	err = r.db.change(ctx, "finish run "+id, func(tx transaction) error {
		done = site.Finished{}
		run, err := r.lockRun(ctx, tx, id)
		if err != nil {
			return err
		}
		done.IsFirst = run.finish == nil
		if run.finish != nil && !sameRows(run.finish, &f) {
			return site.ErrFinished
		}
		named, err := checkFinish(ctx, tx, run, f, inline)
		if err != nil {
			return err
		}
		charged := int64(len(text))
		var put putResult
		if run.finish != nil {
			old, err := site.EncodeJSON(run.finish)
			if err != nil {
				return err
			}
			charged -= int64(len(old))
			if inline != nil {
				done.Unused, err = unnamed(ctx, tx, id, inline.Stored)
				if err != nil {
					return err
				}
			}
		} else if inline != nil {
			put, err = r.putRow(ctx, tx, run, named[inline.Name], *inline, body)
			if err != nil {
				return err
			}
		}
		var c conditions
		set := "finish = " + c.value(text) + ", finished = coalesce(finished, " + c.value(micros(now)) + "), charged = charged + " + c.value(charged) +
			", objects = objects + " + c.value(put.objects) + said.set(&c)
		err = execute(ctx, tx, "UPDATE run SET "+set+" WHERE id = "+c.value(id), c.args...)
		if err != nil {
			return err
		}
		// The row of the job is the last one that each change locks, see postgresWriter.
		if err := r.quotas.charge(ctx, tx, id, run.owner, charged+put.bytes); err != nil {
			return err
		}
		return r.jobs.refreshJob(ctx, tx, run.job)
	})
	if err != nil {
		return site.Finished{}, err
	}
	return done, nil
}

// namesOfRun has no condition of the class: SQLite would read all objects of the class.
const namesOfRun = "SELECT name, class FROM object WHERE run_id = $1"

// checkFinish checks that the objects of f are there. It returns the rows of the record and of inline data.
func checkFinish(ctx context.Context, tx transaction, run lockedRun, f site.Finish, inline *site.Object) (named map[string]objectRow, err error) {
	if f.RecordSum != "" || inline != nil {
		named, err = rowsNamed(ctx, tx, run, site.RecordName, site.InlineName)
		if err != nil {
			return nil, err
		}
	}
	record := named[site.RecordName]
	isRecord := record.class == site.ClassRecord && record.sum == f.RecordSum
	if f.RecordSum != "" && !isRecord {
		return nil, fmt.Errorf("%w: %s with SHA-256 %s", site.ErrMissing, site.RecordName, f.RecordSum)
	}
	isKnown := run.finish != nil || len(f.Keys) == 0 // retention may have removed objects of a finished run
	if isKnown {
		return named, nil
	}
	hasRows := map[string]bool{}
	_, err = collect(ctx, tx, func(scan scanFunc) (name string, err error) {
		var class site.Class
		err = scan(&name, &class)
		hasRows[name] = class == site.ClassCSV
		return name, err
	}, namesOfRun, run.id)
	if err != nil {
		return nil, err
	}
	for _, key := range f.Keys {
		if !hasRows[key] {
			return nil, fmt.Errorf("%w: %s", site.ErrMissing, key)
		}
	}
	return named, nil
}

// sameRows reports whether two finishes have the same rows.
func sameRows(a, b *site.Finish) bool {
	return a.DataSource == b.DataSource && slices.Equal(a.Keys, b.Keys) && a.CSVSHA256 == b.CSVSHA256
}
