package upload

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
)

// inlineKey is the key of a batch whose rows go into the finish. It is in the
// ledger before the finish is sent, so that whoever repeats it says the same.
const inlineKey = "inline"

// inlineRows is how many snapshots a run has at most that is delivered inline: an
// hour's at one a second.
const inlineRows = 3600

// chooseInline decides how the rows go: inline where nothing was uploaded and the
// run is short (section 9.2.3), or where an earlier finish may have said so.
func (r *delivery) chooseInline() error {
	ledger, err := r.spool.Batches()
	if err != nil {
		return unreadable("read the ledger of batches", err)
	}
	last, err := r.spool.LastSeq()
	if err != nil {
		return unreadable("read the number of the last snapshot", err)
	}
	begun := len(ledger) > 0 && ledger[len(ledger)-1].Key == inlineKey
	uploaded := slices.ContainsFunc(ledger, func(b rt.Batch) bool { return !b.UploadedAt.IsZero() })
	inline := begun || r.mayInline && !uploaded && last <= inlineRows
	if inline || inline != r.inline {
		r.rewind() // csv begins with the first batch
	}
	r.inline = inline
	return nil
}

// appendInline appends the lines of a batch's body, those after the first batch's
// without their header.
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
