package drain

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// spooled is a run of the spool as an upload.Spooled.
type spooled struct {
	*spool.Reader
	privacy *Privacy
}

// Run implements upload.Description.
func (s spooled) Run() rt.Run { return s.disguise().Run() }

func (s spooled) disguise() *Disguise { return s.privacy.Disguise(s.Reader.Run()) }

// Scalars implements upload.SnapshotReader. It reads only those parts of the snapshots from which rows are derived.
func (s spooled) Scalars(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return s.Rates(ctx, from, to)
}

// WriteRecord implements upload.Recorder.
func (s spooled) WriteRecord(ctx context.Context, w io.Writer) error {
	return archive.Write(ctx, w, s.Reader, s.privacy.RecordOptions())
}

// Figures implements upload.Recorder. There are none if one of them is infinite, which JSON cannot have.
func (s spooled) Figures(ctx context.Context) ([]byte, error) {
	events, err := s.Events()
	if err != nil {
		return nil, err
	}
	d := s.disguise()
	for i := range events {
		d.Event(&events[i]) // the summary has who cancelled the job
	}
	sum, err := report.Summarize(d.Run(), events, s.Snapshots(ctx, 1, 0))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(sum.Delivered())
	if errors.As(err, new(*json.UnsupportedValueError)) {
		return nil, nil
	}
	return text, err
}
