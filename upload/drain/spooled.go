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
	*spool.Delivery
	privacy *Privacy
}

// Run implements upload.Spooled.
func (s spooled) Run() rt.Run { return s.disguise().Run() }

func (s spooled) disguise() *Disguise { return s.privacy.Disguise(s.Reader.Run()) }

// WriteRecord implements upload.Spooled.
func (s spooled) WriteRecord(ctx context.Context, w io.Writer) error {
	return archive.Write(ctx, w, s.Reader, s.privacy.RecordOptions())
}

// Figures implements upload.Spooled. There are none if one of them is infinite, which JSON cannot have.
func (s spooled) Figures(ctx context.Context) ([]byte, error) {
	sum, err := s.summarize(s.Snapshots(ctx, 1, 0))
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(sum.Delivered())
	if errors.As(err, new(*json.UnsupportedValueError)) {
		return nil, nil
	}
	return text, err
}

// summarize returns the summary of the run as it leaves.
func (s spooled) summarize(snapshots iter.Seq2[*rt.Snapshot, error]) (*report.Summary, error) {
	events, err := s.Events()
	if err != nil {
		return nil, err
	}
	d := s.disguise()
	for i := range events {
		d.Event(&events[i]) // the summary has who cancelled the job
	}
	return report.Summarize(d.Run(), events, snapshots)
}
