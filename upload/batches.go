package upload

import (
	"context"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// uploadBatches uploads all batches after the cursor that the receiver has not confirmed yet. Afterwards
// uris has the URIs of all batches, in order; it is empty if the run has no rows.
func (r *delivery) uploadBatches(ctx context.Context) error {
	if err := r.resume(); err != nil {
		return err
	}
	sealed, err := r.spooled.Batches()
	if err != nil {
		return unreadable("read the ledger of batches", err)
	}
	last, err := r.spooled.LastSeq()
	if err != nil {
		return unreadable("read the number of the last snapshot", err)
	}
	for {
		n := r.batches + 1
		uri := r.uri(n)
		var b rt.Batch
		if n <= len(sealed) {
			if sealed[n-1].Number != n {
				return unreadable("read the ledger of batches", fmt.Errorf("batch %d is missing", n))
			}
			b = sealed[n-1]
		}
		isUploaded := !b.UploadedAt.IsZero() && b.Key == uri
		if isUploaded && !r.resend {
			r.skipped++
			err = r.rows.skipTo(ctx, b.LastSeq)
		} else {
			b, err = r.uploadBatch(ctx, b, last, n, uri)
		}
		if err != nil {
			return err
		}
		if b.Rows == 0 {
			return nil
		}
		r.batches, r.cursor = n, r.rows.cursor
		if uri != inlineKey {
			r.uris = append(r.uris, uri)
		}
	}
}

// resume sets the rows to the end of the batches that are done, or to the beginning if none is.
func (r *delivery) resume() error {
	if r.rows == nil {
		columns, err := columnsOf(&r.run, r.reg.Dialect, r.reg.Scope)
		if err != nil {
			return err
		}
		r.rows = &rows{columns: columns, buf: r.buf}
	}
	r.rows.spooled, r.rows.cursor = r.spooled, r.cursor
	return nil
}

// rewind makes the next upload start with batch 1.
func (r *delivery) rewind() {
	r.rows, r.cursor, r.batches, r.uris = nil, cursor{}, 0, nil
	r.inline, r.csv, r.skipped = false, nil, 0
}

func (r *delivery) uri(n int) string {
	if r.inline {
		return inlineKey
	}
	return fmt.Sprintf("%s/%s/%06d.csv.gz", r.reg.UploadURIPrefix, r.reg.RemoteID, n)
}

// uploadBatch builds, seals and uploads batch n. A batch without rows means that no rows are left.
// If the batch is sealed already, its rows must be the same.
func (r *delivery) uploadBatch(ctx context.Context, sealed rt.Batch, last int64, n int, uri string) (rt.Batch, error) {
	limit := r.d.opts.BatchRows
	if sealed.Rows > 0 {
		last, limit = sealed.LastSeq, 0
	}
	b, body, err := r.rows.buildBatch(ctx, last, limit)
	isDone := b.Rows == 0 && sealed.Rows == 0
	if err != nil || isDone {
		return b, err
	}
	b.Number, b.Key, b.SealedAt = n, uri, time.Now()
	if err := r.sealBatch(sealed, b); err != nil {
		return b, err
	}
	if r.inline {
		r.csv, err = appendInline(r.csv, body)
	} else {
		err = r.putObject(ctx, uri, body)
		if err == nil {
			err = r.markUploaded(n)
		}
	}
	if err != nil {
		return b, err
	}
	r.sentRows += int64(b.Rows)
	r.sentBytes += b.Bytes
	return b, nil
}

func (r *delivery) markUploaded(n int) error {
	if err := r.spooled.MarkUploaded(n, time.Now()); err != nil {
		return unwritable(fmt.Sprintf("mark batch %d uploaded", n), err)
	}
	return nil
}

// sealBatch writes a batch into the ledger, unless the ledger has the same batch. Rows that differ from the
// sealed ones mean that the file is damaged. The same rows in other bytes (a newer version,
// another scope) replace the object of the same key: nothing is stored twice.
func (r *delivery) sealBatch(sealed, b rt.Batch) error {
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
			if err := r.addEvent("batch", "resealed", detail); err != nil {
				return err
			}
		}
	}
	if err := r.spooled.SealBatch(b); err != nil {
		return unwritable(fmt.Sprintf("seal batch %d", b.Number), err)
	}
	return nil
}
