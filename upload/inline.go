package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// inlineKey is the key of a batch with rows that are sent in the finish. It is in the ledger
// before the finish is sent, so that a repeated finish is the same.
const inlineKey = "inline"

// inlineRows is the largest number of snapshots of a run that is delivered inline: an hour
// with one per second.
const inlineRows = 3600

// collectRows puts the rows into the object store for the finish to name. If nothing was uploaded
// and the run is short, the rows go into the finish itself (section 9.2.3). Batches that were
// sealed for the store may be there without a confirmation: collectRows uploads them again, and
// sends them inline only if that fails.
func (u *uploads) collectRows(ctx context.Context) error {
	sealed, err := u.of.spooled.Batches()
	if err != nil {
		return unreadable("read the ledger of batches", err)
	}
	last, err := u.of.spooled.LastSeq()
	if err != nil {
		return unreadable("read the number of the last snapshot", err)
	}
	short := u.mayInline && last <= inlineRows
	isNew := len(sealed) == 0 && short
	wasInline := len(sealed) > 0 && sealed[len(sealed)-1].Key == inlineKey // an earlier finish may have been sent so
	if isNew || wasInline {
		return u.collectInline(ctx)
	}
	err = u.uploadBatches(ctx)
	var failed *Error
	if err == nil || !short || len(u.uris) > 0 || ctx.Err() != nil || !errors.As(err, &failed) || errors.As(err, new(*forgottenError)) {
		return err
	}
	return u.collectInline(ctx)
}

func (u *uploads) collectInline(ctx context.Context) error {
	u.rewind() // csv begins with the first batch
	u.inline = true
	return u.uploadBatches(ctx)
}

// appendInline appends the lines of a batch's body; only the first batch keeps its header.
func appendInline(csv, body []byte) ([]byte, error) {
	gz, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read back a batch: %w", err)
	}
	text, err := io.ReadAll(gz)
	if err != nil {
		return nil, fmt.Errorf("read back a batch: %w", err)
	}
	if len(csv) > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return append(csv, text...), nil
}
