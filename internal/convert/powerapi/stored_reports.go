package powerapi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// storedReports returns the stored reports of one kind, all for an empty kind, in the order of time.
func storedReports(ctx context.Context, r *spool.Reader, kind string) ([]powerapi.Report, error) {
	var out []powerapi.Report
	for rec, err := range r.Records(ctx, source) {
		if err != nil {
			return nil, err
		}
		report, err := powerapi.Decoder{}.Parse(rec.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: a report that is stored with the run: %w", r.Path(), err)
		}
		if kind == "" || kindOfReport(report) == kind {
			out = append(out, report)
		}
	}
	slices.SortStableFunc(out, func(a, b powerapi.Report) int { return a.Head().Time.Compare(b.Head().Time) })
	return out, nil
}

// figure is the subject of a part of a report: a target, and for counters their group.
type figure struct{ target, group string }

// withoutOwn removes the figures that rt has too from the reports of other sensors.
func withoutOwn(ctx context.Context, r *spool.Reader, kind string, kept []powerapi.Report) ([]powerapi.Report, error) {
	if len(kept) == 0 {
		return nil, nil
	}
	own := map[figure]bool{}
	err := ownReports(ctx, r, kind, func(report powerapi.Report) error {
		keepFigures(report, func(f figure) bool {
			own[f] = true
			return true
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(kept, func(report powerapi.Report) bool {
		return keepFigures(report, func(f figure) bool { return !own[f] }) == 0
	}), nil
}

// keepFigures removes the figures of a report for which keep is false, and returns how many are
// left. A power is one figure and stays in its report.
func keepFigures(report powerapi.Report, keep func(figure) bool) (n int) {
	switch r := report.(type) {
	case *powerapi.HWPCReport:
		maps.DeleteFunc(r.Groups, func(group string, _ powerapi.Sockets) bool { return !keep(figure{r.Target, group}) })
		return len(r.Groups)
	case *powerapi.PowerReport:
		if keep(figure{target: r.Target}) {
			return 1
		}
	case *powerapi.ProcfsReport:
		r.Targets = slices.DeleteFunc(r.Targets, func(target string) bool { return !keep(figure{target: target}) })
		maps.DeleteFunc(r.Usage, func(target string, _ float64) bool { return !slices.Contains(r.Targets, target) })
		return len(r.Targets)
	}
	return 0
}
