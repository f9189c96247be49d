package resourcetracker

import (
	"context"
	"io"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// ExportCSV writes the columns of section 7.2, a row for each interval.
func ExportCSV(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	if _, err := io.WriteString(w, CSVHeader); err != nil {
		return err
	}
	var line []byte
	for i, err := range rt.Intervals(r.Rates(ctx, 1, 0)) {
		if err != nil {
			return err
		}
		s := rt.DeriveScalars(i.Prev, i.Cur, scope)
		line = AppendCSV(line[:0], i.Cur.Wall/1e9, &s)
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// ExportJSON writes the lines of section 7.1, one for each interval. program returns the newest report of the job's
// GemPBA program up to a time, in nanoseconds since the epoch, as JSON. It returns nil if none is new.
func ExportJSON(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope, program func(wall int64) ([]byte, error)) error {
	name := r.Run().Meta.JobName
	var line []byte
	for i, err := range rt.Intervals(r.Snapshots(ctx, 1, 0)) {
		if err != nil {
			return err
		}
		s := rt.Derive(i.Prev, i.Cur, scope)
		if name != "" {
			s.JobName.Set(name)
		}
		isFirst := line == nil
		line = AppendJSON(line[:0], &s, rt.Version)
		if !isFirst {
			line = WithInterval(line, s.Scalars.Seconds)
		}
		reported, err := program(i.Cur.Wall)
		if err != nil {
			return err
		}
		if reported != nil {
			line = With(line, "gempba", reported)
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}
