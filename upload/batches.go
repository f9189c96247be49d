package upload

import (
	"context"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// uploads is how far the rows of a delivery are at the receiver.
type uploads struct {
	of      *delivery
	rows    *rows    // nil before the first batch
	cursor  cursor   // of the rows, after the last batch that is done
	batches int      // that are done
	uris    []string // of these batches
	inline  bool     // the rows go into the finish, not into the object store
	csv     []byte   // these rows
	skipped int      // batches that an earlier attempt has uploaded
	resend  bool     // no batch is skipped
	// mayInline: a short run without uploads may be delivered inline.
	mayInline bool
}

// uploadBatches uploads all batches after the cursor that the receiver has not confirmed yet. Afterwards
// uris has the URIs of all batches, in order; it is empty if the run has no rows.
func (u *uploads) uploadBatches(ctx context.Context) error {
	if err := u.resume(); err != nil {
		return err
	}
	sealed, err := u.of.spooled.Batches()
	if err != nil {
		return unreadable("read the ledger of batches", err)
	}
	last, err := u.of.spooled.LastSeq()
	if err != nil {
		return unreadable("read the number of the last snapshot", err)
	}
	for {
		n := u.batches + 1
		uri := u.uri(n)
		var b rt.Batch
		if n <= len(sealed) {
			if sealed[n-1].Number != n {
				return unreadable("read the ledger of batches", fmt.Errorf("batch %d is missing", n))
			}
			b = sealed[n-1]
		}
		isUploaded := !b.UploadedAt.IsZero() && b.Key == uri
		if isUploaded && !u.resend {
			u.skipped++
			err = u.rows.skipTo(ctx, b.LastSeq)
		} else {
			b, err = u.uploadBatch(ctx, b, last, n, uri)
		}
		if err != nil {
			return err
		}
		if b.Rows == 0 {
			return nil
		}
		u.batches, u.cursor = n, u.rows.clone()
		if uri != inlineKey {
			u.uris = append(u.uris, uri)
		}
	}
}

// resume sets the rows to the end of the batches that are done, or to the beginning if none is.
func (u *uploads) resume() error {
	if u.rows == nil {
		columns, err := columnsOf(&u.of.run, u.of.reg.Dialect, u.of.reg.Scope)
		if err != nil {
			return err
		}
		u.rows = &rows{columns: columns, buf: u.of.buf}
	}
	u.rows.spooled, u.rows.cursor = u.of.spooled, u.cursor.clone()
	return nil
}

// rewind makes the next upload start with batch 1.
func (u *uploads) rewind() {
	u.rows, u.cursor, u.batches, u.uris = nil, cursor{}, 0, nil
	u.inline, u.csv, u.skipped = false, nil, 0
}

func (u *uploads) uri(n int) string {
	if u.inline {
		return inlineKey
	}
	return fmt.Sprintf("%s/%s/%06d.csv.gz", u.of.reg.UploadURIPrefix, u.of.reg.RemoteID, n)
}

// uploadBatch builds, seals and uploads batch n. A batch without rows means that no rows are left.
// If the batch is sealed already, its rows must be the same.
func (u *uploads) uploadBatch(ctx context.Context, sealed rt.Batch, last int64, n int, uri string) (rt.Batch, error) {
	limit := u.of.d.opts.BatchRows
	if sealed.Rows > 0 {
		last, limit = sealed.LastSeq, 0
	}
	b, body, err := u.rows.buildBatch(ctx, last, limit)
	isDone := b.Rows == 0 && sealed.Rows == 0
	if err != nil || isDone {
		return b, err
	}
	b.Number, b.Key, b.SealedAt = n, uri, time.Now()
	if err := u.sealBatch(sealed, b); err != nil {
		return b, err
	}
	if u.inline {
		u.csv, err = appendInline(u.csv, body)
	} else {
		err = u.of.putObject(ctx, uri, body)
		if err == nil {
			err = u.markUploaded(n)
		}
	}
	if err != nil {
		return b, err
	}
	u.of.sentRows += int64(b.Rows)
	u.of.sentBytes += b.Bytes
	return b, nil
}

func (u *uploads) markUploaded(n int) error {
	return unwritable(fmt.Sprintf("mark batch %d uploaded", n), u.of.spooled.MarkUploaded(n, time.Now()))
}

// sealBatch writes a batch into the ledger, unless the ledger has the same batch. Rows that differ from the
// sealed ones mean that the file is damaged. The same rows in other bytes (a newer version,
// another scope) replace the object of the same key: nothing is stored twice.
func (u *uploads) sealBatch(sealed, b rt.Batch) error {
	if sealed.Rows > 0 {
		if b.Rows != sealed.Rows || b.FirstSeq != sealed.FirstSeq || b.LastSeq != sealed.LastSeq {
			return unreadable(fmt.Sprintf("build batch %d again", b.Number), fmt.Errorf(
				"snapshots %d..%d now give %d rows, not %d", sealed.FirstSeq, sealed.LastSeq, b.Rows, sealed.Rows))
		}
		if b.SHA256 == sealed.SHA256 && b.Key == sealed.Key {
			return nil
		}
		if b.SHA256 != sealed.SHA256 {
			detail := fmt.Sprintf("batch %d has other bytes than when it was sealed: %s, was %s", b.Number, b.SHA256, sealed.SHA256)
			if err := u.of.addEvent("batch", "resealed", detail); err != nil {
				return err
			}
		}
	}
	return unwritable(fmt.Sprintf("seal batch %d", b.Number), u.of.spooled.SealBatch(b))
}
