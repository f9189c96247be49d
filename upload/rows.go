package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
)

// gzipLevel is fixed: a batch must have the same bytes whenever it is built.
const gzipLevel = 6

// flushAt is the number of bytes of rows that are passed to gzip at once.
const flushAt = 32 << 10

// buffers are what a worker needs to build a body; the next body reuses them.
type buffers struct {
	gz     *gzip.Writer
	body   bytes.Buffer
	csv    []byte
	record bytes.Buffer
}

func newBuffers() *buffers {
	gz, _ := gzip.NewWriterLevel(nil, gzipLevel) // the level is valid
	return &buffers{gz: gz, csv: make([]byte, 0, flushAt+4096)}
}

// rows reads the snapshots of a run once, and builds the bodies of batches. A row of a body covers
// the interval between two snapshots.
type rows struct {
	spooled Spooled
	columns columns
	buf     *buffers
	cursor
}

// cursor is a position to which a walk can return: after one of the run's snapshots. The
// zero value is before the first.
type cursor struct {
	walk rt.Walk
	seq  int64 // of the snapshot
	wall int64 // its time
}

// clone returns the same position. Later steps of c do not change it.
func (c *cursor) clone() cursor { return cursor{c.walk.Clone(), c.seq, c.wall} }

// advance reads up to snapshot `to` and calls visit for every interval. visit returns whether to
// continue.
func (r *rows) advance(ctx context.Context, to int64, visit func(prev, cur *rt.Snapshot) (bool, error)) error {
	if r.seq >= to {
		return nil
	}
	for snap, err := range r.spooled.Rates(ctx, r.seq+1, to) {
		if err != nil {
			return unreadable(fmt.Sprintf("read the snapshots after number %d", r.seq), err)
		}
		if snap.Seq <= r.seq || snap.Seq > to {
			return unreadable("read the snapshots", fmt.Errorf("number %d follows number %d", snap.Seq, r.seq))
		}
		r.seq, r.wall = snap.Seq, snap.Wall
		prev := r.walk.Step(snap)
		if prev == nil {
			continue
		}
		if more, err := visit(prev, snap); err != nil || !more {
			return err
		}
	}
	return ctx.Err()
}

// skipTo reads up to snapshot `to`, whose rows are uploaded.
func (r *rows) skipTo(ctx context.Context, to int64) error {
	err := r.advance(ctx, to, func(_, _ *rt.Snapshot) (bool, error) { return true, nil })
	if err == nil && r.seq != to {
		err = unreadable("read the snapshots", fmt.Errorf("number %d, the last of an uploaded batch, is missing", to))
	}
	return err
}

// buildBatch makes the body of the next batch: the rows up to snapshot `to`, at most limit of
// them, 0 for no limit. The body is valid until the next call; it has no rows when there
// are none left.
func (r *rows) buildBatch(ctx context.Context, to int64, limit int) (rt.Batch, []byte, error) {
	var b rt.Batch
	buf := r.buf
	buf.body.Reset()
	buf.gz.Reset(&buf.body)
	buf.gz.ModTime = time.Unix(0, 0) // "no time" in gzip; the zero Time would be written as a date
	buf.csv = append(buf.csv[:0], r.columns.header...)
	err := r.advance(ctx, to, func(prev, cur *rt.Snapshot) (bool, error) {
		buf.csv = r.columns.appendRow(buf.csv, prev, cur)
		if b.Rows == 0 {
			b.FirstSeq = prev.Seq + 1 // so that batches are contiguous even if snapshots were thinned
		}
		b.LastSeq = cur.Seq
		b.Rows++
		if len(buf.csv) < flushAt {
			return b.Rows != limit, nil
		}
		_, err := buf.gz.Write(buf.csv)
		buf.csv = buf.csv[:0]
		return b.Rows != limit, err
	})
	if err != nil {
		return b, nil, err
	}
	if _, err := buf.gz.Write(buf.csv); err != nil {
		return b, nil, fmt.Errorf("compress a batch: %w", err)
	}
	if err := buf.gz.Close(); err != nil {
		return b, nil, fmt.Errorf("compress a batch: %w", err)
	}
	body := buf.body.Bytes()
	sum := sha256.Sum256(body)
	b.Bytes, b.SHA256 = int64(len(body)), hex.EncodeToString(sum[:])
	return b, body, nil
}
