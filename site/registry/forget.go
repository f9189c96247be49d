package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt/site"
)

// RemoveRun removes a run with its objects, and the row of its job with the last run of the job. The
// names in the object store that no row has any more are in LeftoverObjects. A run that is not there is no error.
func (r *Removals) RemoveRun(ctx context.Context, id string) error {
	return r.db.change(ctx, "remove run "+id, func(tx transaction) error {
		run, err := r.runs.lockRun(ctx, tx, id)
		if errors.Is(err, site.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := putGone(ctx, tx, id, nil); err != nil {
			return err
		}
		stored, err := r.removeRun(ctx, tx, run)
		if err != nil {
			return err
		}
		if err := renameJob(ctx, tx, run.job); err != nil {
			return err
		}
		return putLeftover(ctx, tx, stored)
	})
}

// putLeftover stores names for LeftoverObjects.
func putLeftover(ctx context.Context, tx transaction, stored []string) error {
	for _, name := range stored {
		if err := execute(ctx, tx, "INSERT INTO leftover (stored) VALUES ($1) ON CONFLICT DO NOTHING", name); err != nil {
			return err
		}
	}
	return nil
}

// LeftoverObjects returns at most limit names, after the given one, in the object store of objects that RemoveRun and
// Rewrite have removed. The caller deletes them there, and then calls ForgetObject.
func (r *Removals) LeftoverObjects(ctx context.Context, after string, limit int) ([]string, error) {
	return r.db.texts(ctx, "list the objects to delete", "SELECT stored FROM leftover WHERE stored > $1 ORDER BY stored LIMIT $2", after, limit)
}

// ForgetObject removes a name from LeftoverObjects.
func (r *Removals) ForgetObject(ctx context.Context, stored string) error {
	return r.db.execute(ctx, "forget object "+stored, "DELETE FROM leftover WHERE stored = $1", stored)
}

// Rewrite replaces the texts of a run, in one transaction. If the run has changed since it was read as w.Old
// and w.OldRecord, nothing is changed and the error is site.ErrChanged. The name in the object store that
// no row has any more is in LeftoverObjects.
func (r *Removals) Rewrite(ctx context.Context, w site.Rewrite) error {
	return r.db.change(ctx, "rewrite run "+w.Old.ID, func(tx transaction) error {
		run, err := r.runs.lockRun(ctx, tx, w.Old.ID)
		if err != nil {
			return err
		}
		rows, err := rowsNamed(ctx, tx, run, site.RecordName, site.RecordName)
		if err != nil {
			return err
		}
		record := rows[site.RecordName]
		if record.class != site.ClassRecord {
			record = objectRow{}
		}
		grown, err := grownTexts(run.finish, w)
		if err != nil {
			return err
		}
		if record.sum != w.OldRecord.SHA256 {
			return site.ErrChanged
		}
		if err := r.putTexts(ctx, tx, run, w, grown); err != nil {
			return err
		}
		if record.sum != "" {
			if err := r.rewriteRecord(ctx, tx, run, record, w); err != nil {
				return err
			}
		}
		if w.Run == nil {
			return nil
		}
		now, err := r.runs.putRecord(ctx, tx, run, w.Run)
		if err != nil {
			return err
		}
		for _, job := range []jobKey{run.job, now} {
			if err := renameJob(ctx, tx, job); err != nil {
				return err
			}
		}
		return nil
	})
}

// grownTexts returns by how many bytes the registration and the finish grow. It is site.ErrChanged if the
// finish is not the one that was read.
func grownTexts(finish *site.Finish, w site.Rewrite) (int64, error) {
	grown := len(w.Metadata) - len(w.Old.Metadata)
	if finish == nil && w.Old.Finish == nil {
		return int64(grown), nil
	}
	if finish == nil || w.Old.Finish == nil {
		return 0, site.ErrChanged
	}
	var text [3][]byte
	for i, f := range []*site.Finish{finish, w.Old.Finish, w.Finish} {
		var err error
		text[i], err = site.EncodeJSON(f)
		if err != nil {
			return 0, err
		}
	}
	if !bytes.Equal(text[0], text[1]) {
		return 0, site.ErrChanged
	}
	return int64(grown + len(text[2]) - len(text[1])), nil
}

func (r *Removals) putTexts(ctx context.Context, tx transaction, run lockedRun, w site.Rewrite, grown int64) error {
	var finish []byte
	var said summaryColumns
	if w.Finish != nil {
		var err error
		finish, err = site.EncodeJSON(w.Finish)
		if err != nil {
			return err
		}
		said = summaryColumnsOf(w.Finish.Summary)
	}
	var c conditions
	set := "metadata = " + c.value([]byte(w.Metadata)) + ", finish = " + c.value(finish) + ", charged = charged + " + c.value(grown) + said.set(&c)
	err := execute(ctx, tx, "UPDATE run SET "+set+" WHERE id = "+c.value(run.id), c.args...)
	if err != nil {
		return err
	}
	return r.quotas.charge(ctx, tx, run.id, run.owner, grown)
}

// rewriteRecord replaces the bytes of the record, or removes it if there are no other bytes.
func (r *Removals) rewriteRecord(ctx context.Context, tx transaction, run lockedRun, old objectRow, w site.Rewrite) (err error) {
	grown := w.Record.Bytes - old.bytes
	if w.Record.SHA256 == "" {
		grown = -old.bytes - rowBytes
		err = execute(ctx, tx, "DELETE FROM object WHERE run_id = $1 AND name = $2", run.id, site.RecordName)
		if err == nil {
			err = markExpired(ctx, tx, run.id, site.ClassRecord, 1)
		}
	} else {
		err = execute(ctx, tx, "UPDATE object SET bytes = $1, sha256 = $2, stored = $3, body = $4 WHERE run_id = $5 AND name = $6",
			w.Record.Bytes, w.Record.SHA256, w.Record.Stored, w.Body, run.id, site.RecordName)
	}
	if err != nil {
		return err
	}
	if err := r.quotas.charge(ctx, tx, run.id, run.owner, grown); err != nil {
		return err
	}
	replaced, err := unnamed(ctx, tx, run.id, old.stored)
	if err != nil || replaced == "" {
		return err
	}
	return putLeftover(ctx, tx, []string{replaced})
}

// wipeAttempts is how often Wipe waits for the readers of the database, each time for the 10 s of _busy_timeout.
const wipeAttempts = 3

// Wipe removes from the database file and its log what RemoveRun and Rewrite have deleted. Deleted
// rows stay in the log until SQLite moves the log into the file. The error is site.ErrBusy if
// readers prevent it.
func (r *Registry) Wipe(ctx context.Context) error {
	if r.db.wipe == "" {
		return nil
	}
	for range wipeAttempts {
		var isBusy, size, moved int64
		err := r.db.read.QueryRowContext(ctx, r.db.wipe).Scan(&isBusy, &size, &moved)
		if err != nil {
			return fmt.Errorf("empty the log of the database: %w", r.db.fault(err))
		}
		if isBusy == 0 {
			return nil
		}
	}
	return fmt.Errorf("empty the log of the database: %w: others read it", site.ErrBusy)
}

// Audit stores that a user has changed what the site has stored.
func (r *Settings) Audit(ctx context.Context, who, what string) error {
	return r.db.execute(ctx, "write to the table audit", "INSERT INTO audit (at, who, what) VALUES ($1, $2, $3)",
		time.Now().UTC().Format(time.RFC3339Nano), column(who), fit(what, nameMax))
}

// Audits returns what Audit has stored, the oldest first, one line each.
func (r *Settings) Audits(ctx context.Context) ([]string, error) {
	return r.db.texts(ctx, "read the table audit", "SELECT at || ' ' || who || ': ' || what FROM audit ORDER BY at")
}
