package spool

import (
	"database/sql/driver"
	"slices"

	"github.com/resource-tracker/rt/spool/internal/coreticks"
)

// coreTable has the counters of the CPUs. In a record its blobs are differences from the row before in the same frame, of
// which a compression makes little.
const coreTable = "core_ticks"

// coreBlobs converts the blobs of core_ticks, row after row.
type coreBlobs struct{ before, now []coreticks.Core }

// pack makes a blob of a record from one of a spool file.
func (b *coreBlobs) pack(blob driver.Value) (driver.Value, error) {
	content, ok := blob.([]byte)
	if !ok {
		return nil, coreticks.ErrCores
	}
	var err error
	b.now, err = coreticks.Decode(b.now[:0], content)
	packed := coreticks.Append(nil, b.before, b.now)
	b.before, b.now = b.now, b.before
	return packed, err
}

// unpack is the reverse of pack.
func (b *coreBlobs) unpack(blob driver.Value) (driver.Value, error) {
	content, ok := blob.([]byte)
	if !ok {
		return nil, coreticks.ErrCores
	}
	var err error
	b.now, err = coreticks.Decode(b.now, content)
	return coreticks.Append(nil, nil, b.now), err
}

// unpackCores converts the blobs in the rows of a frame, if it is of core_ticks.
func (t *recordTable) unpackCores(rows [][]driver.Value) (err error) {
	at := slices.Index(t.columns, "cores")
	if t.name != coreTable || at < 0 {
		return nil
	}
	var blobs coreBlobs
	for _, row := range rows {
		row[at], err = blobs.unpack(row[at])
		if err != nil {
			return err
		}
	}
	return nil
}
